"""A node's parameters in blocks, with their gradients and the options of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from basegraph.algorithms.method import Method
from basegraph.engines.distributed.local_shards import local, local_gradient
from basegraph.errors import InvalidArgument

BLOCK = 2**19
"""Parameters that are moved at a time: a few such blocks fit into a processor's cache, and are
large enough for what Python does about each not to count."""
SMALL_TENSOR = 2**16
"""Parameters of a tensor up to which its gradient is put together with its neighbors': copying it
takes less time than a block of its own."""


class Options(NamedTuple):
    """What applies to a parameter at a step."""

    lr: float
    decay: float
    method: Method


class Block(NamedTuple):
    """Some neighboring parameters with their gradient and one choice of options."""

    where: slice
    grad: Tensor
    lr: Any
    decay: float
    method: Method
    """The method with the options of these parameters."""


class GradientPart(NamedTuple):
    """One parameter's gradient, as a vector, at its place in the buffer."""

    first: int
    grad: Tensor
    options: Options


def parts_of(
    groups: Iterable[tuple[list[Tensor], Options]], scale: Tensor | None, *, overflowed: bool
) -> Iterator[GradientPart]:
    """The gradients of all parameters, one after another.

    A parameter without a gradient gets a zero gradient and no weight decay.

    Args:
        groups: Parameters with the options of their group.
        scale: What gradients are divided by, if a GradScaler has not done so.
        overflowed: Whether a GradScaler has found an overflow: no parameter has a gradient then.

    Raises:
        InvalidArgument: A gradient is sparse.

    """
    first = 0
    for parameters, options in groups:
        for p in parameters:
            shard = local(p)
            if p.grad is not None and p.grad.is_sparse:
                raise InvalidArgument("gradient", "sparse", "must be dense")
            grad = None if overflowed else local_gradient(p)
            if not shard.numel():
                continue
            if grad is None:
                nothing = shard.new_zeros(1).expand(shard.numel())
                yield GradientPart(first, nothing, options._replace(decay=0.0))
            else:
                grad = grad.reshape(-1)
                yield GradientPart(first, grad if scale is None else grad / scale, options)
            first += shard.numel()


def in_blocks(parts: Iterable[GradientPart]) -> list[Block]:
    """Cut large parameters into several blocks, and join small ones with equal options."""
    blocks: list[Block] = []
    for run in _runs(parts):
        first, grad, (lr, decay, method) = run[0]
        if len(run) > 1:
            grad = torch.cat([part.grad for part in run])
        for section in (grad,) if grad.numel() <= BLOCK else torch.split(grad, BLOCK):
            where = slice(first, first + section.numel())
            blocks.append(Block(where, section, lr, decay, method))
            first = where.stop
    return blocks


def _runs(parts: Iterable[GradientPart]) -> Iterator[list[GradientPart]]:
    """Small neighbors with equal options together, as many as fit a block; large ones alone."""
    run: list[GradientPart] = []
    size = 0
    for part in parts:
        width = part.grad.numel()
        large = width > SMALL_TENSOR
        if run and (large or size + width > BLOCK or part.options != run[0].options):
            yield run
            run, size = [], 0
        if large:
            yield [part]
        else:
            run.append(part)
            size += width
    if run:
        yield run
