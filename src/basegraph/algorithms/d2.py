"""D² (Tang et al. 2018): the true one, and what published code computes in its name."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.method import Array, Method, Mix, damped
from basegraph.algorithms.options import share


class Previous(NamedTuple):
    """x₋ and η₋ g₋, each gradient with the step size of its own step."""

    x: Array
    descent: Array


def d2(damping: float = 1.0) -> Method:
    """D²: x¹ = mix(x⁰ - ηg⁰), then x⁺ = mix(2x - x₋ - ηg + η₋g₋).

    `damping` τ < 1 uses (1-τ) I + τ W for W. On finite-time sequences D² is unstable without it,
    even with zero gradients: `stability` measures that, and `damping` that is stable.

    Args:
        damping: τ in (0, 1]: the mixing matrix is (1-τ) I + τ W.

    Raises:
        InvalidArgument: If the damping is not in (0, 1].

    """
    share(damping=damping)

    def step(x: Array, grad: Array, state: Previous, lr: float, mix: Mix) -> tuple[Array, Previous]:
        descent = lr * grad
        moved = 2 * x - state.x - descent + state.descent
        return damped(mix, damping)(moved), Previous(x, descent)

    # With x₋ = x⁰ and g₋ = 0 the first step is x⁰ - ηg⁰, as it should be.
    mixing = (f"damping={damping:g}",) if damping < 1 else ()
    return Method("d2", lambda x: Previous(x, 0 * x), step, mixing_options=mixing)


class Aliased(NamedTuple):
    """η₋ g₋"""

    descent: Array


def d2_published() -> Method:
    """What published code behind the paper's D² curves computes: x⁺ = mix(x - ηg - η₋g₋).

    This is not D². In x⁺ = mix(2x - x₋ - ηg - η₋g₋) a sign is wrong, and x₋ is kept as an alias of
    the parameters, so that it cancels; but it starts as zeros, so the first step is
    mix(2x⁰ - ηg⁰): training begins by doubling the initial parameters. It is here so that the
    paper's figure can be reproduced under an honest name. A run that begins again from trained
    models, after a fault, does not double them.
    """

    def step(x: Array, grad: Array, state: Aliased, lr: float, mix: Mix) -> tuple[Array, Aliased]:
        descent = lr * grad
        return mix(x - descent - state.descent), Aliased(descent)

    return Method(
        "d2-published",
        lambda x: Aliased(-1 * x),  # makes x⁰ - ηg⁰ into 2x⁰ - ηg⁰
        step,
        restart=lambda x: Aliased(0 * x),
        ends_with_mix=True,
    )
