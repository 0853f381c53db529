"""Euclid: exact consensus for any n with one neighbor a round, by mirrors of a circle."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np

from basegraph.topologies.core.closed_form import ClosedFormSequence, Segment
from basegraph.topologies.core.integers import node_count
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import IntArray

Mirror = tuple[int, Fraction]
"""A round: the shift s and the weight w of all its pairs."""

SEARCHED = 2**14
"""For a factor f up to here every v is tried; beyond, those around a few points of the circle."""
WINDOW = 2**13
"""How far around those points."""
SMALL_FACTOR = 128
"""Circles that are too long to be searched whole are taken apart by factors up to here."""


def euclid(n: int, *, spec: str = "euclid") -> ClosedFormSequence:
    """Euclid: mirrors of a circle, exact consensus for any n with one neighbor a round.

    Every round is a mirror with one shift s and one weight w. Odd n: node i talks to (s - i) mod n,
    and the node on the axis idles. Even n = 2q: node i < q talks to q + (i + s) mod q. A
    distribution a on the circle of N = n (odd) or q (even) places so becomes
    (1 - w) a(d) + w a(s - d).

    The first mirror is (0, 1/2). From then on a uniform arc grows from one place to the whole
    circle, one factor f of N at a time. A mirror splits it into two adjacent arcs of values f - v
    and v (v coprime to f). While the values differ, the mirror about the middle of the arc of
    smaller value copies the other arc to its far side, with the weight that makes the copy equal:
    the values run through the subtractive Euclidean algorithm, down to 1 and 1.

    Period 1 + the sum over the factors of (the sum of the partial quotients of f/v) - 1, for the
    best factorisation and the best v; degree 1. A node's peer is one subtraction.

    Args:
        n: Number of nodes.
        spec: What the sequence is called, where it is part of another construction.

    Raises:
        InvalidArgument: If n is not an integer ≥ 1.

    Example:
        >>> euclid(25).period, euclid(24).period
        (7, 5)
        >>> euclid(10**6).neighbors(7, 1)
        {500008: Fraction(1, 2)}

    """
    n = node_count(n)
    return by_mirrors(spec, n, mirrors(n if n % 2 else n // 2) if n > 1 else ())


def by_mirrors(spec: str, n: int, rounds: tuple[Mirror, ...]) -> ClosedFormSequence:
    """The sequence of these mirrors of n nodes; one identity round where there are none."""
    places = n if n % 2 else n // 2

    def segments(phase: int) -> list[Segment]:
        if not rounds:
            return []
        shift, weight = rounds[phase]

        def about(i: IntArray) -> IntArray:
            return ((shift - i) % n)[:, None]

        def to_the_left(i: IntArray) -> IntArray:
            return (places + (i + shift) % places)[:, None]

        def to_the_right(i: IntArray) -> IntArray:
            return ((i - places - shift) % places)[:, None]

        if n % 2:
            return [Segment(0, n, (weight,), about, Origin.MIRROR)]
        return [
            Segment(0, places, (weight,), to_the_left, Origin.MIRROR),
            Segment(places, n, (weight,), to_the_right, Origin.MIRROR),
        ]

    return ClosedFormSequence(
        spec,
        n,
        max(1, len(rounds)),
        segments,
        max_degree=min(1, len(rounds)),
        symmetric=True,
        promised_degree=1,
    )


def mirrors(places: int) -> tuple[Mirror, ...]:
    """The mirrors that spread one place of a circle evenly over all of them.

    >>> mirrors(3)
    ((0, Fraction(1, 2)), (1, Fraction(1, 3)), (2, Fraction(1, 2)))
    """
    reflections = [(0, Fraction(1, 2))]
    left, length = 0, 1  # of the uniform arc
    for factor in factors(places):
        # A chain on super-places of `length` places each: place y begins at left + y * length.
        steps, start = chain(factor, best_split(factor)[1])
        reflections += [(2 * left + (s + 1) * length - 1, weight) for s, weight in steps]
        left, length = left + start * length, length * factor
    return tuple((shift % places, weight) for shift, weight in reflections)


def chain(factor: int, v: int) -> tuple[list[Mirror], int]:
    """The mirrors that grow one place to a uniform arc of `factor` places, and where it begins.

    >>> chain(3, 1)
    ([(1, Fraction(1, 3)), (2, Fraction(1, 2))], 0)
    """
    reflections = [(1, Fraction(v, factor))]
    # Two adjacent arcs: a places of value u, then b places of value v.
    left, a, u, b = 0, 1, factor - v, 1
    while u != v:
        if u > v:  # about the middle of the right arc: the left one is copied to its far side
            reflections.append((2 * left + 2 * a + b - 1, Fraction(v, u)))
            u, b = u - v, a + b
        else:
            reflections.append((2 * left + a - 1, Fraction(u, v)))
            left, v, a = left - b, v - u, a + b
    return reflections, left


def euclid_length(n: int) -> int:
    """The period of `euclid(n)`, without building it."""
    places = n if n % 2 else n // 2
    return 1 + sum(best_split(f)[0] for f in factors(places))


@lru_cache(maxsize=2**16)
def factors(places: int) -> tuple[int, ...]:
    """The factorisation of a circle's length, ascending, that makes the fewest mirrors."""
    small = [f for f in range(2, min(SMALL_FACTOR, places // 2) + 1) if places % f == 0]
    options: list[tuple[int, tuple[int, ...]]] = []
    if 1 < places <= SEARCHED or (places > 1 and not small):
        options.append((best_split(places)[0], (places,)))
    for factor in small:
        parts = tuple(sorted((factor, *factors(places // factor))))
        options.append((sum(best_split(f)[0] for f in parts), parts))
    return min(options)[1] if options else ()


@lru_cache(maxsize=2**16)
def best_split(factor: int) -> tuple[int, int]:
    """(mirrors, v): the v coprime to the factor whose partial quotients have the smallest sum.

    >>> best_split(2), best_split(5), best_split(13)
    ((1, 1), (3, 2), (5, 5))
    """
    if factor <= SEARCHED:
        tried = np.arange(1, factor // 2 + 1)
    else:  # around the golden and the silver section, whose partial quotients are all small
        golden, silver = (isqrt(5 * factor**2) - factor) // 2, isqrt(2 * factor**2) - factor
        windows = [np.arange(v - WINDOW, v + WINDOW) for v in (golden, silver)]
        tried = np.concatenate(windows)
        tried = tried[(tried > 0) & (tried < factor)]
    sums = np.zeros(len(tried), dtype=np.int64)
    larger, smaller = np.full(len(tried), factor), tried
    while smaller.any():
        divisor = np.maximum(smaller, 1)
        quotient = np.where(smaller > 0, larger // divisor, 0)
        sums += quotient
        larger, smaller = (
            np.where(smaller > 0, smaller, larger),
            np.where(smaller > 0, larger - quotient * smaller, 0),
        )
    sums[larger != 1] = np.iinfo(np.int64).max
    best = int(np.argmin(sums))
    return int(sums[best]) - 1, int(tried[best])
