"""One step of a method on the stacked buffers, in place.

A method works on every column (parameter) by itself, so on a CPU the step is made on one block of
columns after another: the temporaries of a block stay in the cache, while whole-buffer ones would
be fetched from fresh memory at every operation.

Shape legend: x_nd nodes × parameters.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from basegraph.algorithms.method import Method, Mix, State

BLOCK_NUMBERS = 2**18
"""Numbers of all nodes together in a block: a few of them fit into a core's cache."""


def updates_in_blocks(x_nd: Tensor) -> bool:
    """Whether `update` goes block by block and overwrites, so that gradients may be reused."""
    return x_nd.device.type == "cpu" and x_nd.numel() > BLOCK_NUMBERS


@torch.no_grad()
def update(
    method: Method,
    x_nd: Tensor,
    gradients: Tensor,
    state: State,
    lr: Any,
    mix: Mix | None,
    decay: float | Tensor = 0.0,
    *,
    whole: bool = False,
) -> tuple[Tensor, State]:
    """Make one step of a method at all nodes.

    Args:
        method: Whose step it is.
        x_nd: The models.
        gradients: Of the same shape.
        state: The method's state.
        lr: The learning rate, one number or a column (nodes, 1).
        mix: The round; None at a step at which no node communicates.
        decay: Weight decay λ, one number or a row (1, parameters).
        whole: Whether the mix needs whole vectors: no blocks then.

    Returns:
        The next models and state; in blocks they are the same tensors, overwritten.

    """
    if whole or not updates_in_blocks(x_nd):
        return method.move(x_nd, gradients, state, lr, mix, decay)
    nodes, size = x_nd.shape
    width = max(1, BLOCK_NUMBERS // nodes)
    for first in range(0, size, width):
        columns = slice(first, first + width)
        # A state that is not per parameter (push-sum's mass) goes along whole, and the last
        # block's is kept: all blocks make the same of it.
        part = type(state)(*(s[:, columns] if s.shape[1] == size else s for s in state))
        decays = decay if isinstance(decay, float) else decay[:, columns]
        x_part, new = method.move(x_nd[:, columns], gradients[:, columns], part, lr, mix, decays)
        for old, before, fresh in zip(state, part, new, strict=True):
            if old.shape[1] == size and fresh is not before:
                old[:, columns] = fresh  # before x is overwritten: this may be the old x
        x_nd[:, columns] = x_part
    kept = (w if w.shape[1] == size else f for w, f in zip(state, new, strict=True))
    return x_nd, type(state)(*kept)
