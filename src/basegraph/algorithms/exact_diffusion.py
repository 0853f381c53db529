"""Exact diffusion (Yuan et al. 2019)."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.method import Array, Method, Mix, damped


class Adapted(NamedTuple):
    """ψ"""

    adapted: Array


def exact_diffusion() -> Method:
    """Exact diffusion: ψ⁺ = x - ηg; φ = ψ⁺ + x - ψ; x⁺ = W̄φ with W̄ = (I+W)/2, ψ⁰ = x⁰.

    Made for one symmetric W that does not change.
    """

    def step(x: Array, grad: Array, state: Adapted, lr: float, mix: Mix) -> tuple[Array, Adapted]:
        adapted = x - lr * grad
        return damped(mix, 0.5)(x + (adapted - state.adapted)), Adapted(adapted)

    return Method("exact-diffusion", Adapted, step)
