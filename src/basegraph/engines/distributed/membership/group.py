"""The process group of nodes that torchrun has started."""

from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from basegraph.engines.distributed.bounded import within
from basegraph.engines.distributed.membership.progress import (
    GRACE,
    TIMEOUT,
    Progress,
    listens,
    seconds,
    watch,
)
from basegraph.engines.distributed.membership.torchrun import agent_store, start_prefix
from basegraph.engines.distributed.shutdown.exit import let_groups_go
from basegraph.errors import InvalidArgument, PeerLost

GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
"""The variable that names the interface on which gloo listens."""


def join(backend: str | None = None, timeout: float = TIMEOUT) -> None:
    """Make the process group of all nodes, from torchrun's environment.

    Nodes that are restarted must not see the addresses that those before them have left in
    torchrun's store, where nothing answers any more. So every start has a prefix of its own there.

    Args:
        backend: Of `torch.distributed`; None lets torch choose.
        timeout: Seconds to wait for the other nodes.

    Raises:
        InvalidArgument: The environment is not torchrun's.
        PeerLost: A node, which the message names, did not come in time.

    """
    seconds(timeout)
    node, size = _number("RANK"), _number("WORLD_SIZE")
    # The group's own store is busy while the group is made, so lost nodes are looked up by another.
    store, notes = _stores(node, size, timeout)
    progress = Progress(notes, node, size, timeout, None if agent_store() else 0)

    def meet() -> None:
        progress.reached("its start")
        end = time.monotonic() + timeout
        arrived = notes.add("arrived", 1)
        while arrived < size:
            if time.monotonic() > end:
                raise TimeoutError(f"{arrived} of {size} nodes have joined")
            time.sleep(0.02)
            arrived = notes.add("arrived", 0)

    def connect() -> None:
        progress.reached("the rendezvous")
        limit = timedelta(seconds=timeout)
        dist.init_process_group(backend, store=store, rank=node, world_size=size, timeout=limit)

    for step in (meet, connect):
        started = time.monotonic()
        try:
            within(timeout + GRACE, step)
        except (RuntimeError, TimeoutError) as error:
            waited = time.monotonic() - started
            raise progress.peer_lost(None, "start-up", error, waited) from None
    let_groups_go()
    watch(None, timeout)


def join_alone(timeout: float = TIMEOUT) -> None:
    """Make a process group of this process only, which no other process can reach."""
    given = os.environ.get(GLOO_INTERFACE)
    os.environ[GLOO_INTERFACE] = given or socket.if_indextoname(1)  # loopback
    try:
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    finally:
        if given is None:
            del os.environ[GLOO_INTERFACE]
    watch(None, timeout)


def _stores(node: int, size: int, timeout: float) -> tuple[Any, Any]:
    """Two connections to the store in which nodes find each other; node 0 may have to make it."""
    host, port = _variable("MASTER_ADDR"), _number("MASTER_PORT")
    makes = node == 0 and not agent_store()
    limit = timedelta(seconds=timeout)

    def store(is_master: bool) -> Any:
        return dist.TCPStore(  # type: ignore[attr-defined]
            host, port, size, is_master, limit, wait_for_workers=False, multi_tenant=is_master
        )

    def connect() -> tuple[Any, Any]:
        end = time.monotonic() + timeout
        while not makes and not listens(host, port):
            if time.monotonic() > end:
                raise TimeoutError("connection refused")
            time.sleep(0.05)
        return store(makes), store(False)

    started = time.monotonic()
    try:
        addresses, notes = within(timeout + GRACE, connect)
    except (RuntimeError, TimeoutError) as error:
        keeper = "torchrun" if agent_store() else "node 0"
        waited = time.monotonic() - started
        raise PeerLost(
            f"node {node}: {keeper} did not answer at start-up within {timeout:g} s (waited "
            f"{waited:.2f} s), at MASTER_ADDR={host}, MASTER_PORT={port}: {error}",
            None if agent_store() else 0,
        ) from None
    prefix = start_prefix()
    return (
        dist.PrefixStore(prefix, addresses),  # type: ignore[attr-defined]
        dist.PrefixStore(f"{prefix} basegraph", notes),  # type: ignore[attr-defined]
    )


def _number(name: str) -> int:
    value = _variable(name)
    if not value.isdecimal():
        raise InvalidArgument(name, value, "must be a number, as torchrun sets it")
    return int(value)


def _variable(name: str) -> str:
    if name not in os.environ:
        raise InvalidArgument(name, None, "must be in the environment, as torchrun sets it")
    return os.environ[name]
