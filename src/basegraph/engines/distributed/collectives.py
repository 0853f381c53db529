"""Collectives that wait no longer than a node is waited for, and name whoever is lost in one.

`torch.distributed`'s own wait as long as their process group says, 30 minutes unless a user has
said otherwise, and so does a process that ends while one is under way. What each is for
(`phase`) is noted beforehand, see `progress`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as c10d

from basegraph.engines.distributed.membership import progress


def all_reduce(x: Tensor, group: Any, phase: str, *, routine: bool = False) -> None:
    """Every node's x becomes the sum of all; `routine` where that happens at every step."""
    options = c10d.AllreduceOptions()
    _complete(lambda nodes: nodes.allreduce([_real(x)], options), options, group, phase, routine)


def broadcast(x: Tensor, group: Any, phase: str) -> None:
    """Every node's x becomes node 0's."""
    options = c10d.BroadcastOptions()
    _complete(lambda nodes: nodes.broadcast([_real(x)], options), options, group, phase)


def all_gather(x: Tensor, group: Any, phase: str) -> list[Tensor]:
    """All nodes' x, at every node."""
    own = x.contiguous()
    rows = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    outputs = [[_real(row) for row in rows]]
    options = c10d.AllgatherOptions()
    _complete(lambda nodes: nodes.allgather(outputs, [_real(own)], options), options, group, phase)
    return rows


def gather(x: Tensor, group: Any, phase: str) -> list[Tensor]:
    """All nodes' x at node 0, nothing elsewhere."""
    own = x.contiguous()
    size = dist.get_world_size(group) if dist.get_rank(group) == 0 else 0
    rows = [torch.empty_like(own) for _ in range(size)]
    outputs = [[_real(row) for row in rows]] if rows else []
    options = c10d.GatherOptions()
    _complete(lambda nodes: nodes.gather(outputs, [_real(own)], options), options, group, phase)
    return rows


def scatter(x: Tensor, rows: list[Tensor], group: Any, phase: str) -> None:
    """Every node's x becomes its own of node 0's rows; other nodes give none."""
    inputs = [[_real(row.contiguous()) for row in rows]] if rows else []
    options = c10d.ScatterOptions()
    _complete(lambda nodes: nodes.scatter([_real(x)], inputs, options), options, group, phase)


def _complete(
    begin: Callable[[Any], Any], options: Any, group: Any, phase: str, routine: bool = False
) -> None:
    known = progress.of(group)
    patience = timedelta(seconds=known.timeout)
    options.timeout = patience  # gloo's own threads give up too, or the process could not end
    options.asyncOp = True
    known.reached(phase, routine=routine)
    began = time.monotonic()
    try:
        begin(dist.group.WORLD if group is None else group).wait(patience)
    except RuntimeError as error:
        raise known.peer_lost(None, phase, error, time.monotonic() - began) from None


def _real(x: Tensor) -> Tensor:
    """The numbers of a complex tensor, which collectives do not know."""
    return torch.view_as_real(x) if x.is_complex() else x
