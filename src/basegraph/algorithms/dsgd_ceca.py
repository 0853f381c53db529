"""DSGD-CECA (Ding et al. 2023): decentralized SGD on nodes that keep two vectors."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.method import Array, Method, PairMix
from basegraph.algorithms.options import below_one


class Other(NamedTuple):
    """w: the vector that is not sent in this round."""

    other: Array


class OtherAndMomentum(NamedTuple):
    """w, the vector that is not sent in this round, and u."""

    other: Array
    momentum: Array


def dsgd_ceca() -> Method:
    """Decentralized SGD with two vectors per node: v, w ← mix(v - η g, w - η g).

    v is what the round sends, w the other of x and y, and they change places where the next round
    sends the other one (`mix` does that). The gradient is taken at v: at x in the rounds that send
    x, at y in those that send y. In the beginning of every period v is x, and w is forgotten.

    Needs a two-state topology, such as `ceca`. When nodes join and leave, rounds start over: the
    first one replaces w by what is received, so that nothing is left of the period that was broken
    off.
    """

    def step(x: Array, grad: Array, state: Other, lr: float, mix: PairMix) -> tuple[Array, Other]:
        descent = lr * grad
        sent, other = mix(x - descent, state.other - descent)
        return sent, Other(other)

    return Method("dsgd-ceca", lambda x: Other(1 * x), step, vectors=2, keeps_state=True)


def dsgdm_ceca(momentum: float = 0.9, nesterov: bool = False) -> Method:
    """DSGD-CECA with momentum: u ← βu + g; v, w ← mix(v - ηu, w - ηu). u stays at home.

    With Nesterov, v, w ← mix(v - η(βu + g), w - η(βu + g)). See `dsgd_ceca`.

    Args:
        momentum: β in [0, 1).
        nesterov: Whether to step along βu + g instead of u.

    Raises:
        InvalidArgument: If the momentum is not in [0, 1).

    """
    below_one(momentum=momentum)

    def step(
        x: Array, grad: Array, state: OtherAndMomentum, lr: float, mix: PairMix
    ) -> tuple[Array, OtherAndMomentum]:
        u = momentum * state.momentum + grad
        descent = lr * (momentum * u + grad) if nesterov else lr * u
        sent, other = mix(x - descent, state.other - descent)
        return sent, OtherAndMomentum(other, u)

    return Method(
        "dsgdm-ceca",
        lambda x: OtherAndMomentum(1 * x, 0 * x),
        step,
        vectors=2,
        keeps_state=True,
    )
