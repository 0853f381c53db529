"""The Simple Base-(k+1) Graph (Alg. 2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.closed_form import ClosedFormSequence, Segment, cliques, others
from basegraph.topologies.core.integers import (
    at_least,
    digits,
    fewest_factors,
    node_count,
    smooth_part,
)
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import IntArray
from basegraph.topologies.paper._hyper_hypercube import hyper_hypercube, hyper_hypercube_length

ISOLATED = ("first", "last")
"""Which isolated nodes of a block may be selected in line 14 of Alg. 2."""


@dataclass(frozen=True)
class Part:
    """V_l: `count` = a_l consecutive blocks V_{l,a} of `block` = (k+1)^p_l nodes each."""

    start: int
    count: int
    power: int
    block: int
    factors: tuple[int, ...]
    """The cliques of H_k(V_l), round by round."""

    @property
    def stop(self) -> int:
        """One past its last node."""
        return self.start + self.count * self.block


def simple_base(
    n: int,
    k: int = 1,
    redundant: bool = True,
    isolated: str = "first",
    *,
    spec: str | None = None,
) -> ClosedFormSequence:
    """Simple Base-(k+1) Graph: exact consensus for any n, at most k neighbors a round.

    The base-(k+1) digits of n split the nodes into parts V_1, V_2, ... of a_l (k+1)^p_l nodes. The
    parts average inside; then for j = 1, 2, ... the smaller parts after V_j give V_j the average
    of all; then every part averages once more inside. (Alg. 2; the hyper-hypercube where n has no
    prime factor above k+1.)

    Period |H(V_1)| + 1 + p_1 ≤ 2 log_{k+1}(n) + 2, degree ≤ k.

    Args:
        n: Number of nodes.
        k: Largest number of neighbors a round.
        redundant: Whether to keep the edges of lines 20 and 27, which consensus does not need but
            training benefits from.
        isolated: Which isolated nodes of a block line 14 selects: the "first" ones, or the "last"
            ones as in the paper's figures and its code.
        spec: What the sequence is called, where it is part of another construction.

    Raises:
        InvalidArgument: If an argument is out of range.

    Example:
        >>> simple_base(5).period, simple_base(5).neighbors(4, 2)
        (5, {0: Fraction(4, 5)})
        >>> simple_base(5, isolated="last").neighbors(4, 2)
        {3: Fraction(4, 5)}

    """
    n, k = node_count(n), at_least(1, k=k)
    if not isinstance(redundant, bool):
        raise InvalidArgument("redundant", redundant, "must be True or False")
    if isolated not in ISOLATED:
        raise InvalidArgument("isolated", isolated, f"must be one of {', '.join(ISOLATED)}")
    spec = spec or paper_spec("simple-base", k, redundant, isolated)
    if smooth_part(n, k + 1) == n:
        return hyper_hypercube(n, k, spec=spec)
    parts = _split(n, k + 1)
    first, last = parts[0], parts[-1]
    from_end = isolated == "last"
    warm_up = len(first.factors)

    def segments(phase: int) -> list[Segment]:
        segments_of_round: list[Segment] = []
        for index, part in enumerate(parts):
            bridge = phase - warm_up  # which part the smaller ones talk to, from 0
            if bridge < 0:
                factor, stride = _clique(part.factors, phase)
                segments_of_round += cliques(part.start, part.stop, stride, factor, Origin.LINE_11)
            elif bridge < index:
                segments_of_round += _give(parts, bridge, part, from_end)
            elif bridge == index and part is not last:
                segments_of_round += _take(parts, bridge, k + 1, redundant, from_end)
            else:
                done = bridge - index - (part is not last)
                if part.power:
                    stride = (k + 1) ** (done % part.power)
                    segments_of_round += cliques(
                        part.start, part.stop, stride, k + 1, Origin.LINE_25
                    )
                elif redundant:
                    segments_of_round += cliques(
                        part.start, part.stop, 1, part.count, Origin.LINE_27
                    )
        return segments_of_round

    period = warm_up + 1 + first.power
    return ClosedFormSequence(
        spec,
        n,
        period,
        segments,
        max_degree=max(len(s.weights) for phase in range(period) for s in segments(phase)),
        symmetric=True,
        promised_degree=k,
    )


def simple_base_length(n: int, k: int) -> int:
    """The period of `simple_base(n, k)`, without building it.

    Args:
        n: Number of nodes.
        k: Most neighbors of a node in a round.

    Returns:
        The number of rounds.

    Example:
        >>> [simple_base_length(n, 1) for n in (5, 6, 8)]
        [5, 5, 3]

    """
    if smooth_part(n, k + 1) == n:
        return hyper_hypercube_length(n, k)
    count, power = digits(n, k + 1)[0]
    return len(fewest_factors(count * (k + 1) ** power, k + 1)) + 1 + power


def paper_spec(name: str, k: int, redundant: bool, isolated: str) -> str:
    """The spec of one of the paper's constructions; options at their defaults are left out."""
    spec = f"{name}:k={k}" + ("" if redundant else ",redundant=false")
    return spec + ("" if isolated == "first" else f",isolated={isolated}")


def _split(n: int, base: int) -> list[Part]:
    """Line 3: V into V_1, V_2, ... by the digits of n, largest power first."""
    parts, start = [], 0
    for count, power in digits(n, base):
        block = base**power
        parts.append(Part(start, count, power, block, fewest_factors(count * block, base)))
        start = parts[-1].stop
    return parts


def _clique(factors: tuple[int, ...], phase: int) -> tuple[int, int]:
    """Line 11: (n_l, stride) of round `phase` of a hyper-hypercube, over and over."""
    if not factors:
        return 1, 1
    turn = phase % len(factors)
    return factors[turn], int(np.prod(factors[:turn], dtype=np.int64))


# Lines 13-15 and 18-20, round m_1 + j: the nodes after V_j queue up, the last part first, and the
# one at place r of the queue meets node r of each block of V_j, or node r counted from the block's
# end. With R nodes in the queue and blocks of B nodes, B - R nodes of a block stay isolated.


def _queue(parts: list[Part], j: int) -> tuple[IntArray, IntArray]:
    """Where each part after V_j starts as a node, and its first place in the queue; last first."""
    after = parts[:j:-1]
    sizes = np.array([part.stop - part.start for part in after])
    return np.array([part.start for part in after]), np.cumsum(sizes) - sizes


def _weight(parts: list[Part], j: int) -> Fraction:
    """|V_j| / (a_j * sum of |V_l| over l ≥ j): what line 15 puts on its edges."""
    return Fraction(parts[j].block, parts[-1].stop - parts[j].start)


def _give(parts: list[Part], j: int, part: Part, from_end: bool) -> list[Segment]:
    """Line 15 for a part after V_j: each node hears one node of every block of V_j."""
    target = parts[j]
    first_place = parts[-1].stop - part.stop
    blocks = target.start + target.block * np.arange(target.count)

    def senders(i: IntArray) -> IntArray:
        place = i - part.start + first_place
        return blocks + (target.block - 1 - place if from_end else place)[:, None]

    weights = (_weight(parts, j),) * target.count
    return [Segment(part.start, part.stop, weights, senders, Origin.LINE_15)]


def _take(parts: list[Part], j: int, clique: int, redundant: bool, from_end: bool) -> list[Segment]:
    """Lines 15 and 20 for V_j itself: in each block, those that are met and the others."""
    part = parts[j]
    starts, places = _queue(parts, j)
    met = parts[-1].stop - part.stop  # in each block
    isolated = part.block - met
    first_met, first_isolated = (isolated, 0) if from_end else (0, met)
    full = part.count * isolated // clique * clique  # isolated nodes that fill whole cliques
    left = part.count * isolated - full

    def giver(i: IntArray) -> IntArray:
        offset = (i - part.start) % part.block
        place = part.block - 1 - offset if from_end else offset
        giving = np.searchsorted(places, place, side="right") - 1
        return (starts[giving] + place - places[giving])[:, None]

    def neighbor(i: IntArray) -> IntArray:
        """Line 20: the isolated nodes of V_j, in order, in cliques of k+1 while they last."""
        block, offset = np.divmod(i - part.start, part.block)
        number = block * isolated + offset - first_isolated
        own = number % clique
        size = clique if number[0] < full else left
        members = (number - own)[:, None] + others(own, size)
        within = first_isolated + members % isolated
        return part.start + members // isolated * part.block + within

    bridge_weight = (_weight(parts, j),)
    clique_weights = (Fraction(1, clique),) * (clique - 1)
    left_weights = (Fraction(1, left),) * (left - 1) if left > 1 else ()
    segments = []
    for block in range(part.count):
        start = part.start + block * part.block
        low, free = start + first_met, start + first_isolated
        split = free + min(max(full - block * isolated, 0), isolated)
        segments.append(Segment(low, low + met, bridge_weight, giver, Origin.LINE_15))
        if redundant:
            for low, high, weights in (
                (free, split, clique_weights),
                (split, free + isolated, left_weights),
            ):
                if high > low and weights:
                    segments.append(Segment(low, high, weights, neighbor, Origin.LINE_20))
    return sorted(segments, key=lambda segment: segment.start)
