"""DSGD with momentum (Gao and Huang 2020), the method of the paper's main experiments."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.method import Array, Method, Mix
from basegraph.algorithms.options import below_one


class Momentum(NamedTuple):
    """u"""

    momentum: Array


def dsgdm(momentum: float = 0.9, nesterov: bool = False) -> Method:
    """DSGD with momentum: u ← βu + g; x ← mix(x - ηu). u stays at home.

    With Nesterov, x ← mix(x - η(βu + g)).

    Args:
        momentum: β in [0, 1).
        nesterov: Whether to step along βu + g instead of u.

    Raises:
        InvalidArgument: If the momentum is not in [0, 1).

    """
    below_one(momentum=momentum)

    def step(x: Array, grad: Array, state: Momentum, lr: float, mix: Mix) -> tuple[Array, Momentum]:
        u = momentum * state.momentum + grad
        direction = momentum * u + grad if nesterov else u
        return mix(x - lr * direction), Momentum(u)

    return Method(
        "dsgdm",
        lambda x: Momentum(0 * x),
        step,
        ends_with_mix=True,
        either_order=True,
        keeps_state=True,
    )
