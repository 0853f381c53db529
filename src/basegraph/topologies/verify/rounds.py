"""Each round by itself: positive weights, doubly stochastic, symmetric and of degree as claimed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basegraph.errors import InvalidArgument, InvalidRound
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Topology


@dataclass(frozen=True)
class RoundFacts:
    """What the check of all rounds has measured."""

    max_degree: int
    arcs: int
    scale: int
    """∏ D_t"""


def check_rounds(topology: Topology, steps: int | None = None) -> RoundFacts:
    """Check every round of the period by itself, exactly.

    Args:
        topology: Its rounds are checked against what it claims of itself.
        steps: How many rounds; default: one period.

    Raises:
        InvalidRound: If a round is not what it must be.
        InvalidArgument: If the topology has no period and no steps are given.

    """
    count = steps if steps is not None else topology.period
    if count is None:
        raise InvalidArgument("steps", steps, "must be given for a topology without a period")
    degree, arcs, scales = 0, 0, []
    for step in range(count):
        current = topology.round(step)
        scales.append(_check_round(current, topology, f"{topology.spec}, round {step}"))
        degree = max(degree, current.degree)
        arcs += len(current.receivers)
    return RoundFacts(degree, arcs, prod(scales))


def _check_round(r: Round, topology: Topology, where: str) -> int:
    """Check one round; returns its common denominator."""
    if r.n != topology.n:
        raise InvalidRound(f"{where}: has {r.n} nodes instead of {topology.n}")
    scale, arcs, self_weights = check_arcs(r, where)
    columns = self_weights.copy()
    np.add.at(columns, r.senders, arcs)
    if (columns != scale).any():
        j = int(np.argmax(columns != scale))
        raise InvalidRound(
            f"{where}: not doubly stochastic: column {j} sums to {Fraction(int(columns[j]), scale)}"
        )
    if topology.symmetric:
        _refuse(
            r, where, r.unreturned(), "has no counterpart of the same weight, as a symmetric W must"
        )
    degrees = r.degrees()
    allowed = topology.max_degree
    if topology.promised_degree is not None:
        allowed = min(allowed, topology.promised_degree)
    if degrees.max() > allowed:
        i = int(np.argmax(degrees))
        raise InvalidRound(
            f"{where}: node {i} talks to {degrees[i]} neighbors, more than {allowed}"
        )
    return scale


def check_arcs(r: Round, where: str) -> tuple[int, NDArray[Any], NDArray[Any]]:
    """Check that weights are positive, arcs distinct, and that no self weight is negative.

    Args:
        r: The round.
        where: What it is called in refusals.

    Returns:
        As `Round.over_common_denominator`.

    Raises:
        InvalidRound: If a weight or an arc is not what it must be.

    """
    _refuse(r, where, r.receivers == r.senders, "is a self loop")
    _refuse(r, where, r.denominators < 1, "has a denominator below 1")
    _refuse(r, where, r.numerators < 1, "is not positive")
    _refuse(r, where, r.repeated(), "occurs twice")
    scale, arcs, self_weights = r.over_common_denominator()
    if (self_weights < 0).any():
        i = int(np.argmax(self_weights < 0))
        heard = Fraction(scale - int(self_weights[i]), scale)
        raise InvalidRound(
            f"{where}: node {i} hears weights that sum to {heard}, "
            f"which leaves it a negative self weight"
        )
    return scale, arcs, self_weights


def _refuse(r: Round, where: str, bad: NDArray[np.bool_], complaint: str) -> None:
    if bad.any():
        arc = int(np.argmax(bad))
        receiver, sender = int(r.receivers[arc]), int(r.senders[arc])
        weight = f"{r.numerators[arc]}/{r.denominators[arc]}"
        raise InvalidRound(f"{where}: arc {receiver} ← {sender} of weight {weight} {complaint}")
