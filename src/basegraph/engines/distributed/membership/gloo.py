"""A node's own store, and gloo groups that listen at one address only."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import torch.distributed as dist

from basegraph.errors import InvalidArgument

HOST = "BASEGRAPH_HOST"
"""The environment variable with the address at which other nodes reach this one."""
BACKLOG = 1024


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


def gloo_group(
    address: str, prefix: str, rank: int, size: int, host: str, timeout: timedelta
) -> Any:
    """A gloo group of its own, not among those that `torch.distributed` knows.

    Args:
        address: Of the store in which its nodes find each other.
        prefix: Of their keys there.
        rank: Of this node.
        size: How many nodes there are.
        host: The address at which this node listens.
        timeout: To connect, and for messages.

    Raises:
        RuntimeError: A node did not come.

    """
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = timeout
    options._devices = [gloo.create_device(hostname=host)]
    store: Any
    if size == 1:
        store = dist.HashStore()  # type: ignore[attr-defined]
    else:
        name, _, port = address.rpartition(" ")
        store = dist.TCPStore(  # type: ignore[attr-defined]
            name, int(port), is_master=False, timeout=timeout, wait_for_workers=False
        )
    store = dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]
    return gloo(store, rank, size, options)
