"""DSGD (Lian et al. 2017)."""

from __future__ import annotations

from basegraph.algorithms.method import Array, Method, Mix, Stateless


def dsgd() -> Method:
    """Decentralized SGD: x ← mix(x - η g)."""

    def step(
        x: Array, grad: Array, state: Stateless, lr: float, mix: Mix
    ) -> tuple[Array, Stateless]:
        return mix(x - lr * grad), state

    return Method(
        "dsgd",
        lambda x: Stateless(),
        step,
        ends_with_mix=True,
        either_order=True,
        keeps_state=True,
    )
