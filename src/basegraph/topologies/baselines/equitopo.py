"""EquiTopo (Song et al. 2022): random graphs with a consensus rate that does not depend on n.

With the cyclic shift P, the building block is A(u) = (n-1)/n P^u + I/n for a shift u in 1..n-1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.baselines.static import static
from basegraph.topologies.core.closed_form import (
    ClosedFormSequence,
    RandomTopology,
    Segment,
    circulant,
)
from basegraph.topologies.core.integers import at_least, node_count
from basegraph.topologies.core.random import integers
from basegraph.topologies.core.rational import LARGEST, rational
from basegraph.topologies.core.round import IntArray

DEFAULT_ETA = Fraction(1, 2)
"""The mixing rate of the one-peer topologies where none is given."""
MOST_DRAWS = 2**20


def d_equistatic(n: int, degree: int = 1, seed: int = 0) -> ClosedFormSequence:
    """D-EquiStatic (directed): the mean of `degree` random A(u), u drawn with replacement.

    Period 1, at most `degree` neighbors.

    Args:
        n: Number of nodes.
        degree: How many draws.
        seed: What the shifts are drawn from, below 2**64.

    Raises:
        InvalidArgument: If an argument is out of range.

    Example:
        >>> d_equistatic(10, degree=3).max_degree <= 3
        True

    """
    n, degree = node_count(n), at_least(1, below=MOST_DRAWS, degree=degree)
    shifts = _static_shifts(n, degree, seed)
    spec = f"d-equistatic:degree={degree},seed={seed}"
    return static(spec, n, circulant(n, shifts), symmetric=_is_mirrored(n, shifts))


def u_equistatic(n: int, degree: int = 1, seed: int = 0) -> ClosedFormSequence:
    """U-EquiStatic: the mean of A(u) and its transpose over `degree` random draws of u.

    Period 1, at most 2 * `degree` neighbors.

    Args:
        n: Number of nodes.
        degree: How many draws.
        seed: What the shifts are drawn from, below 2**64.

    Raises:
        InvalidArgument: If an argument is out of range.

    Example:
        >>> u_equistatic(10, degree=2).max_degree <= 4
        True

    """
    n, degree = node_count(n), at_least(1, below=MOST_DRAWS, degree=degree)
    drawn = _static_shifts(n, degree, seed)
    shifts = {
        u: (drawn.get(u, Fraction(0)) + drawn.get(n - u, Fraction(0))) / 2
        for u in sorted(drawn.keys() | {n - u for u in drawn})
    }
    spec = f"u-equistatic:degree={degree},seed={seed}"
    return static(spec, n, circulant(n, shifts))


def one_peer_d_equidyn(
    n: int, seed: int = 0, eta: Fraction | str | float = DEFAULT_ETA
) -> RandomTopology:
    """One-peer D-EquiDyn (directed): every step draws u and uses (1-η) I + η A(u).

    Never repeats; degree 1.

    Args:
        n: Number of nodes.
        seed: What the shifts are drawn from, below 2**64.
        eta: The step η in (0, 1], as a number, a fraction or text such as "1/3"; taken exactly.

    Raises:
        InvalidArgument: If an argument is out of range.

    Example:
        >>> t = one_peer_d_equidyn(10)
        >>> t.round(3) == t.round(3)
        True

    """

    def segments(step: int, u: int, weight: Fraction) -> list[Segment]:
        return circulant(n, {u: weight})

    return _one_peer("one-peer-d-equidyn", n, seed, eta, segments, symmetric=n in (1, 2))


def one_peer_u_equidyn(
    n: int, seed: int = 0, eta: Fraction | str | float = DEFAULT_ETA
) -> RandomTopology:
    """One-peer U-EquiDyn: every step draws a matching of nodes u apart, weight η (n-1)/n.

    Draw a shift u and a start s; scan i = s, s+1, ... and match i with i+u where both are free.
    In closed form: with y = (i - s) mod n and v = min(u, n - u), node i is matched with i+u if
    and only if y < n - v and y // v is even.

    Never repeats; degree 1.

    Args:
        n: Number of nodes.
        seed: What the shifts are drawn from, below 2**64.
        eta: The step η in (0, 1], as a number, a fraction or text such as "1/3"; taken exactly.

    Raises:
        InvalidArgument: If an argument is out of range.

    Example:
        >>> t = one_peer_u_equidyn(10)
        >>> all(t.neighbors(j, 0)[i] == w for i in range(10) for j, w in t.neighbors(i, 0).items())
        True

    """

    def segments(step: int, u: int, weight: Fraction) -> list[Segment]:
        (s,) = integers(0, n, 1, seed=seed, step=step, stream=1)
        v = min(u, n - u)

        def leads(i: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
            y = (i - s) % n
            return (y < n - v) & (y // v % 2 == 0)

        def senders(i: IntArray) -> IntArray:
            after, before = (i + u) % n, (i - u) % n
            return np.where(leads(i), after, np.where(leads(before), before, i))[:, None]

        return [Segment(0, n, (weight,), senders)]

    return _one_peer("one-peer-u-equidyn", n, seed, eta, segments, symmetric=True)


def _one_peer(
    name: str,
    n: int,
    seed: int,
    eta: Fraction | str | float,
    segments: Callable[[int, int, Fraction], list[Segment]],
    *,
    symmetric: bool,
) -> RandomTopology:
    """The topology whose step draws a shift u and makes segments of (step, u, peer's weight)."""
    n, seed, rate = node_count(n), at_least(0, below=2**64, seed=seed), rational("eta", eta)
    weight = _peer_weight(n, rate)

    def at(step: int) -> list[Segment]:
        if n == 1:
            return []
        (u,) = integers(1, n, 1, seed=seed, step=step)
        return segments(step, u, weight)

    option = "" if rate == DEFAULT_ETA else f",eta={rate}"
    return RandomTopology(
        f"{name}:seed={seed}{option}", n, at, max_degree=min(1, n - 1), symmetric=symmetric
    )


def _static_shifts(n: int, degree: int, seed: int) -> dict[int, Fraction]:
    """Each drawn shift with its share of the weight (n-1)/n."""
    at_least(0, below=2**64, seed=seed)
    if n == 1:
        return {}
    drawn = Counter(integers(1, n, degree, seed=seed, step=0))
    return {u: Fraction(times * (n - 1), degree * n) for u, times in sorted(drawn.items())}


def _is_mirrored(n: int, shifts: dict[int, Fraction]) -> bool:
    return all(shifts.get(n - u) == weight for u, weight in shifts.items())


def _peer_weight(n: int, eta: Fraction) -> Fraction:
    """η (n-1)/n."""
    if eta.denominator * n >= LARGEST:
        raise InvalidArgument("eta", str(eta), f"must have a denominator below 2**62 / {n}")
    return eta * Fraction(n - 1, n)
