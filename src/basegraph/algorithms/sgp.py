"""SGP: stochastic gradient push (Assran et al. 2019)."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.method import Array, Method, Mix


class PushSum(NamedTuple):
    """w: how much mass a node holds, one number per node."""

    mass: Array


def sgp() -> Method:
    """Stochastic gradient push: gradients at z = x/w; x ← P(x - ηg); w ← Pw, w⁰ = 1.

    Needs only a column-stochastic P. The rows of every round of this library sum to one, so w stays
    1 and this is `dsgd`, number for number: rounds whose columns alone sum to one cannot be built.
    """

    def step(x: Array, grad: Array, state: PushSum, lr: float, mix: Mix) -> tuple[Array, PushSum]:
        return mix(x - lr * grad), PushSum(mix(state.mass))

    return Method(
        "sgp",
        lambda x: PushSum(0 * x[..., :1] + 1),
        step,
        gradient_point=lambda x, state: x / state.mass,
        linear=False,
    )
