"""Momentum Tracking (Takezawa et al. 2022)."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.method import Array, Method, Mix
from basegraph.algorithms.options import below_one


class Corrected(NamedTuple):
    """u and the correction c, whose average over nodes is zero."""

    momentum: Array
    correction: Array


def momentum_tracking(momentum: float = 0.9) -> Method:
    """Momentum Tracking: u ← βu + g; x⁺ = mix(x) - η(u - c); c⁺ = mix(c - u) + u, c⁰ = 0.

    u - c follows the average momentum. Two vectors are sent.

    Args:
        momentum: β in [0, 1).

    Raises:
        InvalidArgument: If the momentum is not in [0, 1).

    """
    below_one(momentum=momentum)

    def step(
        x: Array, grad: Array, state: Corrected, lr: float, mix: Mix
    ) -> tuple[Array, Corrected]:
        u = momentum * state.momentum + grad
        moved = mix(x) - lr * (u - state.correction)
        return moved, Corrected(u, mix(state.correction - u) + u)

    return Method("momentum-tracking", lambda x: Corrected(0 * x, 0 * x), step, messages=2)
