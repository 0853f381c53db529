"""A node's own store, and gloo groups that listen at one address only."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import torch.distributed as dist

from basegraph.errors import InvalidArgument

HOST = "BASEGRAPH_HOST"
"""The environment variable with the address at which other nodes reach this one."""
BACKLOG = 1024
PAUSE = 0.002
"""Seconds between two looks at whether a key is there."""


def own_host(lighthouse: str) -> str:
    """The address at which this node listens: loopback, unless the lighthouse is elsewhere.

    Args:
        lighthouse: The lighthouse's address.

    Returns:
        What `BASEGRAPH_HOST` says; without it, the address from which this machine reaches the
        lighthouse.

    Raises:
        InvalidArgument: That address cannot be found.

    """
    given = os.environ.get(HOST)
    if given:
        return given
    parts = urlsplit(lighthouse)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            parts.hostname, parts.port, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise InvalidArgument("lighthouse", lighthouse, f"cannot be reached: {error}") from None


def own_store(host: str) -> Any:
    """A store that other nodes can use, listening at this address and no other.

    Raises:
        InvalidArgument: The address is not one of this machine's.

    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise InvalidArgument(HOST, host, f"is not an address of this machine: {error}") from None
    port = listener.getsockname()[1]
    return dist.TCPStore(  # type: ignore[attr-defined]
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
        use_libuv=False,
    )


def store_address(store: Any) -> str:
    """What other nodes are told of a store."""
    return f"{store.host} {store.port}"


class CancelableStore(dist.Store):  # type: ignore[name-defined, misc]
    """Keys of a store under a prefix; a wait for one that is never set can be ended.

    Args:
        store: The store.
        prefix: Of the keys there.
        limit: Seconds to wait for a key.
        given_up: Whether no node waits any more.

    """

    def __init__(self, store: Any, prefix: str, limit: float, given_up: Callable[[], bool]) -> None:
        super().__init__()
        self._store = store
        self._prefix = prefix
        self._limit = limit
        self._given_up = given_up

    def set(self, key: str, value: Any) -> None:
        """Set a key."""
        self._store.set(f"{self._prefix}/{key}", value)

    def get(self, key: str) -> Any:
        """The value of a key, once it is there."""
        self.wait([key])
        return self._store.get(f"{self._prefix}/{key}")

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Wait until these keys are there.

        Raises:
            RuntimeError: They did not come, or no node waits any more.

        """
        names = [f"{self._prefix}/{key}" for key in keys]
        end = time.monotonic() + self._limit
        while not self._store.check(names):
            if self._given_up():
                raise RuntimeError("no node waits any more")
            if time.monotonic() > end:
                raise RuntimeError(f"no {' '.join(keys)} within {self._limit:g} s")
            time.sleep(PAUSE)


def gloo_group(
    address: str,
    prefix: str,
    rank: int,
    size: int,
    host: str,
    limit: float,
    given_up: Callable[[], bool] = lambda: False,
) -> Any:
    """A gloo group of its own, not among those that `torch.distributed` knows.

    Args:
        address: Of the store in which its nodes find each other.
        prefix: Of their keys there.
        rank: Of this node.
        size: How many nodes there are.
        host: The address at which this node listens.
        limit: Seconds to connect, and for messages.
        given_up: Whether to stop waiting for the others.

    Raises:
        OSError: There is no store at the address.
        RuntimeError: A node did not come.

    """
    gloo: Any = dist.ProcessGroupGloo
    timeout = timedelta(seconds=limit)
    options = gloo._Options()
    options._timeout = timeout
    options._devices = [gloo.create_device(hostname=host)]
    if size == 1:
        return gloo(dist.HashStore(), rank, size, options)  # type: ignore[attr-defined]
    name, _, port = address.rpartition(" ")
    with socket.create_connection((name, int(port)), timeout=limit):
        pass  # a store that is gone is refused here at once; its own client would try again
    store: Any = dist.TCPStore(  # type: ignore[attr-defined]
        name, int(port), is_master=False, timeout=timeout, wait_for_workers=False
    )
    return gloo(CancelableStore(store, prefix, limit, given_up), rank, size, options)
