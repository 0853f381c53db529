"""The process group of nodes that torchrun has started."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed.rendezvous import rendezvous


def restarts() -> int:
    """How often torchrun has started the nodes again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def job() -> str:
    """Which torchrun this is: the same after it has started the nodes again."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return name if name != "none" else f"{socket.gethostname()} {os.getppid()}"


def join(backend: str | None = None, timeout: float | None = None) -> None:
    """Make the process group of all nodes, from torchrun's environment.

    Nodes that are started again must not find what those before them have left in torchrun's store:
    their addresses, where nobody answers any more. So every start has a place of its own there.
    (A store that is made for this start alone needs none, and there the machines' counts of starts
    may differ: one that has come later has seen fewer.)
    """
    patience = dist.default_pg_timeout if timeout is None else timedelta(seconds=timeout)
    store, rank, size = next(rendezvous("env://", timeout=patience))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store = dist.PrefixStore(f"start {restarts()}", store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=patience)


def join_alone() -> None:
    """Make a process group of this process only, which nobody else can reach."""
    given = os.environ.get(GLOO_INTERFACE)
    os.environ[GLOO_INTERFACE] = given or socket.if_indextoname(1)  # loopback
    try:
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    finally:
        if given is None:
            del os.environ[GLOO_INTERFACE]


GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
