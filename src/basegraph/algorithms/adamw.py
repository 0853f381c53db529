"""AdamW (Loshchilov and Hutter 2019) as a decentralized method, and with all-reduce.

The moments are kept as weighted means of the gradients so far: m̂ ← m̂ + (g - m̂)/s, where s ← 1 + βs
is the sum of the weights 1, β, β², ... That is m/(1-βᵗ) of the moment m ← βm + (1-β)g. It needs no
power of a step count, and no 1 - βᵗ, which in float32 has lost five digits at the first step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from basegraph.algorithms.method import Array, Method, Mix
from basegraph.algorithms.options import above_zero, below_one, one_of

ORDERS = ("adapt-then-combine", "combine-then-adapt")


class Moments(NamedTuple):
    """m̂ and v̂, and the sums of their weights: one number each per node."""

    first: Array
    second: Array
    first_weights: Array
    second_weights: Array


def adamw(
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    order: str = "adapt-then-combine",
    mix_moments: bool = False,
) -> Method:
    """AdamW: d = m̂/(√v̂ + ε) + λx; x ← mix(x - ηd). The moments m and v stay at home.

    m ← β₁m + (1-β₁)g, v ← β₂v + (1-β₂)g², m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ). The decay λ is decoupled.
    With `order="combine-then-adapt"`, x ← mix(x) - ηd. With `mix_moments`, m and v are mixed as x
    is: after the step, or before it where x is combined first. Three vectors are sent then.

    Args:
        beta1: β₁ in [0, 1).
        beta2: β₂ in [0, 1).
        eps: ε above 0.
        order: "adapt-then-combine" or "combine-then-adapt".
        mix_moments: Whether to mix the moments too.

    Raises:
        InvalidArgument: If an option is not one of these.

    """
    _require(beta1, beta2, eps)
    one_of(ORDERS, order=order)
    combines_first = order == "combine-then-adapt"

    def step(
        x: Array, grad: Array, state: Moments, lr: float, mix: Mix, decay: Any = 0.0
    ) -> tuple[Array, Moments]:
        if mix_moments and combines_first:
            state = _mixed(state, mix)
        state = _averaged(state, grad, beta1, beta2)
        descent = lr * _direction(x, state, eps, decay)
        if combines_first:
            return mix(x) - descent, state
        moved = mix(x - descent)
        return moved, _mixed(state, mix) if mix_moments else state

    mixing = (f"order={order}",) if combines_first else ()
    return Method(
        "adamw",
        _begin,
        step,
        mixing_options=(*mixing, "mix_moments=true") if mix_moments else mixing,
        messages=3 if mix_moments else 1,
        ends_with_mix=not (combines_first or mix_moments),
        either_order=not mix_moments,
        linear=False,
        decoupled_decay=True,
        keeps_state=True,
    )


def allreduce_adamw(beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> Method:
    """AdamW on the average gradient, the centralized reference: g ← mean(g); x ← x - ηd.

    All nodes hold the same model. `mix` is the exact average here, whatever the topology; d and λ
    are `adamw`'s.

    Args:
        beta1: β₁ in [0, 1).
        beta2: β₂ in [0, 1).
        eps: ε above 0.

    Raises:
        InvalidArgument: If an option is not one of these.

    """
    _require(beta1, beta2, eps)

    def step(
        x: Array, grad: Array, state: Moments, lr: float, mix: Mix, decay: Any = 0.0
    ) -> tuple[Array, Moments]:
        state = _averaged(state, mix(grad), beta1, beta2)
        return x - lr * _direction(x, state, eps, decay), state

    return Method(
        "allreduce-adamw",
        _begin,
        step,
        centralized=True,
        linear=False,
        decoupled_decay=True,
        keeps_state=True,
    )


def _require(beta1: float, beta2: float, eps: float) -> None:
    below_one(beta1=beta1, beta2=beta2)
    above_zero(eps=eps)


def _begin(x: Array) -> Moments:
    return Moments(0 * x, 0 * x, 0 * x[..., :1], 0 * x[..., :1])


def _averaged(state: Moments, grad: Array, beta1: float, beta2: float) -> Moments:
    """The means with one more gradient in them."""
    weights1 = beta1 * state.first_weights + 1
    weights2 = beta2 * state.second_weights + 1
    return Moments(
        _mean(state.first, grad, beta1, weights1),
        _mean(state.second, grad * grad, beta2, weights2),
        weights1,
        weights2,
    )


def _mean(mean: Array, value: Array, beta: float, weights: Array) -> Array:
    """The mean with one more value in it.

    With β = 0 that is the value, to the last bit: mean + (value - mean) loses a value far below the
    mean before it.
    """
    if not beta:
        return 1 * value  # in memory of its own: engines use a gradient's again
    return mean + (value - mean) / weights


def _direction(x: Array, state: Moments, eps: float, decay: Any) -> Array:
    """m̂/(√v̂ + ε) + λx"""
    direction = state.first / (state.second**0.5 + eps)
    return direction if isinstance(decay, float) and not decay else direction + decay * x


def _mixed(state: Moments, mix: Mix) -> Moments:
    """With mixed moments; rounding may take a second moment below zero."""
    return state._replace(first=mix(state.first), second=abs(mix(state.second)))
