"""DecentLaM (Yuan et al. 2021)."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.method import Array, Method, Mix
from basegraph.algorithms.options import below_one


class LargeBatch(NamedTuple):
    """m"""

    momentum: Array


def decentlam(momentum: float = 0.9) -> Method:
    """DecentLaM: g̃ = (x - mix(x - ηg))/η; m ← βm + g̃; x ← x - ηm.

    Momentum over the whole decentralized step. A step with η = 0 mixes nothing.

    Args:
        momentum: β in [0, 1).

    Raises:
        InvalidArgument: If the momentum is not in [0, 1).

    """
    below_one(momentum=momentum)

    def step(
        x: Array, grad: Array, state: LargeBatch, lr: float, mix: Mix
    ) -> tuple[Array, LargeBatch]:
        direction = (x - mix(x - lr * grad)) / (lr + (lr == 0))
        m = momentum * state.momentum + direction
        return x - lr * m, LargeBatch(m)

    return Method("decentlam", lambda x: LargeBatch(0 * x), step)
