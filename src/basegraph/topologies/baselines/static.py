"""Topologies that use the same graph at every step: ring, torus, complete."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

from basegraph.topologies.core.closed_form import (
    ClosedFormSequence,
    Segment,
    circulant,
    refuse_beyond_memory,
)
from basegraph.topologies.core.integers import node_count
from basegraph.topologies.core.round import IntArray

CANDIDATES = 2**16
"""Numbers that are tried as divisors at a time."""


def static(
    spec: str, n: int, segments: list[Segment], *, symmetric: bool = True, note: str = ""
) -> ClosedFormSequence:
    """A sequence of one round.

    Args:
        spec: What the catalogue is asked for.
        n: Number of nodes.
        segments: The round.
        symmetric: Whether its mixing matrix is symmetric.
        note: What to know about it.

    """
    degree = max((len(segment.weights) for segment in segments), default=0)
    return ClosedFormSequence(
        spec, n, 1, lambda phase: segments, max_degree=degree, symmetric=symmetric, note=note
    )


def ring(n: int) -> ClosedFormSequence:
    """Ring: neighbors i-1 and i+1, weights 1/3 (two nodes: one edge of weight 1/2).

    Period 1, degree 2. Consensus rate 1 - O(1/n²).

    Args:
        n: Number of nodes.

    Raises:
        InvalidArgument: If n is not an integer ≥ 1.

    Example:
        >>> ring(5).neighbors(0, 0)
        {4: Fraction(1, 3), 1: Fraction(1, 3)}

    """
    n = node_count(n)
    shifts = {1 % n, -1 % n} - {0}
    weight = Fraction(1, len(shifts) + 1)
    return static("ring", n, circulant(n, dict.fromkeys(sorted(shifts), weight)))


def torus(n: int) -> ClosedFormSequence:
    """Torus: the most square a*b grid with wrap-around, weights 1/5; a slow ring where n is prime.

    a is the largest divisor of n up to its square root. Neighbors that coincide count once and
    the self weight takes the rest, so a prime n (and n = 4) gives a ring with weights 1/5, which
    mixes more slowly than `ring` with its 1/3: the topology's `note` says so.

    Period 1, degree up to 4. Consensus rate 1 - O(1/n) on a square.

    Args:
        n: Number of nodes.

    Raises:
        InvalidArgument: If n is not an integer ≥ 1.

    Example:
        >>> sorted(torus(25).neighbors(0, 0))
        [1, 4, 5, 20]
        >>> torus(7).neighbors(0, 0)
        {1: Fraction(1, 5), 6: Fraction(1, 5)}

    """
    n = node_count(n)
    rows = _most_square(n)
    columns = n // rows
    across = np.array(sorted({1 % columns, -1 % columns} - {0}), dtype=np.int64)
    down = np.array(sorted({1 % rows, -1 % rows} - {0}), dtype=np.int64)

    def senders(i: IntArray) -> IntArray:
        row, column = (part[:, None] for part in np.divmod(i, columns))
        beside = row * columns + (column + across) % columns
        below = (row + down) % rows * columns + column
        return np.concatenate([beside, below], axis=1)

    weights = (Fraction(1, 5),) * (len(across) + len(down))
    is_ring = 0 < len(weights) <= 2
    note = f"on {n} nodes the torus is a ring with weights 1/5, slower than `ring`"
    return static("torus", n, [Segment(0, n, weights, senders)], note=note if is_ring else "")


def _most_square(n: int) -> int:
    """The largest divisor of n up to its square root."""
    for high in range(isqrt(n), 0, -CANDIDATES):
        candidates = np.arange(high, max(high - CANDIDATES, 0), -1)
        divisors = candidates[n % candidates == 0]
        if len(divisors):
            return int(divisors[0])
    raise AssertionError("1 divides everything")


def complete(n: int) -> ClosedFormSequence:
    """Complete graph: every node hears all others, weights 1/n; exact consensus in one round.

    Period 1, degree n-1.

    Args:
        n: Number of nodes.

    Raises:
        InvalidArgument: If n is not an integer ≥ 1, or no memory of this machine
            holds a node's neighbors.

    Example:
        >>> complete(3).neighbors(0, 0)
        {2: Fraction(1, 3), 1: Fraction(1, 3)}

    """
    n = node_count(n)
    refuse_beyond_memory(n, 200 * n, f"a node of complete hears {n - 1} others")
    return static("complete", n, circulant(n, dict.fromkeys(range(1, n), Fraction(1, n))))
