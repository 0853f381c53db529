"""QG-DSGDm: quasi-global momentum (Lin et al. 2021), and what published code computes for it."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.method import Array, Method, Mix
from basegraph.algorithms.options import below_one


class QuasiGlobal(NamedTuple):
    """m"""

    momentum: Array


def qg_dsgdm(momentum: float = 0.9, nesterov: bool = False) -> Method:
    """Quasi-global momentum: u = βm + g; x⁺ = mix(x - ηu); m ← βm + (1-β)(x - x⁺)/η.

    m follows the way the model really moved, mixing included, not the local gradients alone. With
    Nesterov, x⁺ = mix(x - η(βu + g)). A step with η = 0 moves by mixing alone, and is not divided:
    m ← βm + (1-β)(x - x⁺).

    Args:
        momentum: β in [0, 1).
        nesterov: Whether to step along βu + g instead of u.

    Raises:
        InvalidArgument: If the momentum is not in [0, 1).

    """
    below_one(momentum=momentum)

    def step(
        x: Array, grad: Array, state: QuasiGlobal, lr: float, mix: Mix
    ) -> tuple[Array, QuasiGlobal]:
        u = momentum * state.momentum + grad
        direction = momentum * u + grad if nesterov else u
        moved = mix(x - lr * direction)
        scale = (1 - momentum) / (lr + (lr == 0))
        m = momentum * state.momentum + scale * (x - moved)
        return moved, QuasiGlobal(m)

    return Method("qg-dsgdm", lambda x: QuasiGlobal(0 * x), step, keeps_state=True)


def qg_dsgdm_published(momentum: float = 0.9) -> Method:
    """What the paper's public code computes for QG-DSGDm: m ← βm + (1-β)(x½ - x⁺)/β.

    u = βm + g; x½ = x - ηu; x⁺ = mix(x½). This is not quasi-global momentum: the move is counted
    from x½, after the gradient step, and divided by β instead of η. So m follows the mixing alone,
    in the unit of parameters; it sums to zero over the nodes, whose mean is that of SGD without
    momentum. It is here so that the paper's figure can be reproduced under an honest name.

    Args:
        momentum: β in [0, 1).

    Raises:
        InvalidArgument: If the momentum is not in [0, 1).

    """
    below_one(momentum=momentum)
    scale = (1 - momentum) / momentum if momentum else 0.0

    def step(
        x: Array, grad: Array, state: QuasiGlobal, lr: float, mix: Mix
    ) -> tuple[Array, QuasiGlobal]:
        half = x - lr * (momentum * state.momentum + grad)
        moved = mix(half)
        m = momentum * state.momentum + scale * (half - moved)
        return moved, QuasiGlobal(m)

    return Method("qg-dsgdm-published", lambda x: QuasiGlobal(0 * x), step)
