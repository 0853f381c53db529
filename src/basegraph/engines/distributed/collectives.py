"""Collectives that wait no longer than a node is waited for, and name whoever is lost in one.

`torch.distributed`'s own wait as long as their process group says, 30 minutes unless a user has
said otherwise, and so does a process that ends while one is under way. What each is for
(`phase`) is noted beforehand, see `membership.progress`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C import _distributed_c10d as c10d

if TYPE_CHECKING:
    from basegraph.engines.distributed.membership.contract import Membership


def all_reduce(x: Tensor, membership: Membership, phase: str, *, routine: bool = False) -> None:
    """Every node's x becomes the sum of all; `routine` where that happens at every step."""
    options = c10d.AllreduceOptions()
    with _completed(membership, options, phase, routine=routine) as wait:
        wait(membership.group.allreduce([real_view(x)], options))


def broadcast(x: Tensor, membership: Membership, phase: str) -> None:
    """Every node's x becomes node 0's."""
    options = c10d.BroadcastOptions()
    with _completed(membership, options, phase) as wait:
        wait(membership.group.broadcast([real_view(x)], options))


def all_gather(
    x: Tensor, membership: Membership, phase: str, *, routine: bool = False
) -> list[Tensor]:
    """All nodes' x, at every node; `routine` where that happens at every step."""
    sent = x.contiguous()
    rows = [torch.empty_like(sent) for _ in range(membership.n)]
    outputs = [[real_view(row) for row in rows]]
    options = c10d.AllgatherOptions()
    with _completed(membership, options, phase, routine=routine) as wait:
        wait(membership.group.allgather(outputs, [real_view(sent)], options))
    return rows


def gather(x: Tensor, membership: Membership, phase: str) -> list[Tensor]:
    """All nodes' x at node 0, nothing elsewhere."""
    sent = x.contiguous()
    rows = [torch.empty_like(sent) for _ in range(membership.n if membership.node == 0 else 0)]
    outputs = [[real_view(row) for row in rows]] if rows else []
    options = c10d.GatherOptions()
    with _completed(membership, options, phase) as wait:
        wait(membership.group.gather(outputs, [real_view(sent)], options))
    return rows


def scatter(x: Tensor, rows: list[Tensor], membership: Membership, phase: str) -> None:
    """Every node's x becomes its own of node 0's rows; other nodes give none."""
    inputs = [[real_view(row.contiguous()) for row in rows]] if rows else []
    options = c10d.ScatterOptions()
    with _completed(membership, options, phase) as wait:
        wait(membership.group.scatter([real_view(x)], inputs, options))


@contextmanager
def _completed(
    membership: Membership, options: Any, phase: str, *, routine: bool = False
) -> Iterator[Callable[[Any], Any]]:
    """Note the collective, bound it in time, and name whoever is lost in it."""
    progress = membership.progress
    timeout = timedelta(seconds=progress.timeout)
    options.timeout = timeout  # gloo's own threads give up too, or the process could not end
    options.asyncOp = True
    progress.reached(phase, routine=routine)
    started = time.monotonic()
    try:
        yield lambda work: membership.wait(lambda: work.wait(timeout))
    except RuntimeError as error:
        raise progress.peer_lost(None, phase, error, time.monotonic() - started) from None


def real_view(x: Tensor) -> Tensor:
    """The numbers of a complex tensor, which collectives do not know."""
    return torch.view_as_real(x) if x.is_complex() else x
