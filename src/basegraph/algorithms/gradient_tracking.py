"""Gradient tracking (Lorenzo and Scutari 2016, Nedić et al. 2017)."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.method import Array, Method, Mix


class Tracker(NamedTuple):
    """What the tracker became by mixing, and the gradient it followed: mix(y₋) and g₋."""

    mixed: Array
    grad: Array


def gradient_tracking() -> Method:
    """Gradient tracking: y⁰ = g⁰; x⁺ = mix(x) - ηy; y⁺ = mix(y) + g⁺ - g.

    y follows the average gradient, so heterogeneous data leave no bias. Two vectors are sent.
    """

    def step(x: Array, grad: Array, state: Tracker, lr: float, mix: Mix) -> tuple[Array, Tracker]:
        y = state.mixed + grad - state.grad
        return mix(x) - lr * y, Tracker(mix(y), grad)

    return Method("gradient-tracking", lambda x: Tracker(0 * x, 0 * x), step, messages=2)
