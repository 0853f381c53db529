"""A method of one's own, tried out before anything relies on it.

Shape legend: x (3, 4): three nodes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from basegraph.algorithms.method import Array, Method, both
from basegraph.errors import InvalidArgument

NODES, SIZE = 3, 4
TOLERANCE = 1e-5
"""Relative: the nodes together may be added up in another order than each by itself."""


def require_sound(method: Method) -> None:
    """Refuse a method whose functions are not what engines take, by a step of a few nodes.

    Args:
        method: Not of the catalogue.

    Raises:
        InvalidArgument: It fails, its state is no NamedTuple of tensors, it mixes more or fewer
            vectors than it says, or its nodes depend on each other otherwise than by mixing.

    """
    draws = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(NODES, SIZE, generator=draws) for _ in range(2))
    mixed = 0

    def mix(v: Array) -> Array:
        nonlocal mixed
        mixed += v.shape[-1] == SIZE  # a single number beside the model hardly counts
        return v

    round_ = both if method.vectors == 2 else mix
    together = _step(method, x, grad, round_)
    calls = mixed
    if method.vectors == 1 and calls != method.messages:
        raise _refused(
            method, f"mixes {calls} vectors in a step, and says messages={method.messages}"
        )
    alone = [_step(method, x[i : i + 1], grad[i : i + 1], round_) for i in range(NODES)]
    for number, whole in enumerate(together):
        rows = torch.cat([node[number] for node in alone])
        if rows.shape != whole.shape or not torch.allclose(rows, whole, rtol=TOLERANCE, atol=1e-6):
            raise _refused(method, "combines nodes other than through mix: write it elementwise")


def _step(method: Method, x: Tensor, grad: Tensor, mix: Any) -> list[Tensor]:
    """x and the parts of the state after a step from a fresh state."""
    try:
        state = method.init(x.clone())
        kind = type(state)
        _require_state(method, "init", state, len(x))
        made = method.move(x.clone(), grad.clone(), state, 0.1, mix)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise _refused(method, f"fails on tensors of {len(x)} nodes: {reason}") from None
    if not isinstance(made, tuple) or len(made) != 2 or hasattr(made, "_fields"):
        raise _refused(method, "step must return x and the state")
    moved, after = made
    if not isinstance(moved, Tensor) or moved.shape != x.shape:
        raise _refused(method, "step must return x, a tensor like the one before, and the state")
    if type(after) is not kind:
        raise _refused(
            method, f"step must return a state of the kind that init makes, {kind.__name__}"
        )
    _require_state(method, "step", after, len(x))
    return [moved, *after]


def _require_state(method: Method, made_by: str, state: Any, nodes: int) -> None:
    named = isinstance(state, tuple) and hasattr(state, "_fields")
    if not named or not all(isinstance(p, Tensor) and p.dim() and len(p) == nodes for p in state):
        raise _refused(
            method,
            f"{made_by} must return a NamedTuple of tensors whose first axis is the nodes",
        )


def _refused(method: Method, why: str) -> InvalidArgument:
    return InvalidArgument("algorithm", method.name, why)
