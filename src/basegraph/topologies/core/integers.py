"""Exact integer arithmetic behind the constructions: no floating-point logarithm anywhere.

`int(math.log(243, 3))` is 4 although 3**5 == 243; a wrong digit makes a wrong graph.
"""

from __future__ import annotations

import operator
from functools import lru_cache

from basegraph.errors import InvalidArgument

MOST_NODES = 2**62
"""Node numbers and weights are int64."""


def at_least(low: int, *, below: int | None = None, **argument: object) -> int:
    """The one named argument as an `int`, refused unless it is an integer ≥ `low` (and < `below`).

    >>> at_least(1, n=5)
    5
    >>> at_least(1, k=2.0)
    Traceback (most recent call last):
        ...
    basegraph.errors.InvalidArgument: k=2.0: must be an integer ≥ 1
    """
    ((name, value),) = argument.items()
    try:
        number = low - 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = low - 1
    if number < low:
        raise InvalidArgument(name, value, f"must be an integer ≥ {low}")
    if below is not None and number >= below:
        raise InvalidArgument(name, value, f"must be an integer ≥ {low} and below {below}")
    return number


def node_count(n: object) -> int:
    """n as an `int`, refused unless it is a number of nodes."""
    return at_least(1, below=MOST_NODES, n=n)


def node(i: object, n: int, argument: str = "i") -> int:
    """A node's index as an `int`, refused unless it is one of 0..n-1; `argument` is its name."""
    try:
        index = at_least(0, i=i)
    except InvalidArgument:
        index = n
    if index >= n:
        raise InvalidArgument(argument, i, f"must be a node, an integer from 0 to {n - 1}")
    return index


def floor_log(n: int, base: int) -> int:
    """The largest p with base**p ≤ n.

    >>> floor_log(242, 3), floor_log(243, 3), floor_log(244, 3)
    (4, 5, 5)
    """
    exponent, power = 0, base
    while power <= n:
        exponent, power = exponent + 1, power * base
    return exponent


def ceil_log(n: int, base: int) -> int:
    """The smallest p with base**p ≥ n.

    >>> ceil_log(243, 3), ceil_log(244, 3)
    (5, 6)
    """
    exponent, power = 0, 1
    while power < n:
        exponent, power = exponent + 1, power * base
    return exponent


def digits(n: int, base: int) -> list[tuple[int, int]]:
    """The non-zero digits of n as (a, p), largest power first: n is the sum of all a * base**p.

    >>> digits(25, 2)
    [(1, 4), (1, 3), (1, 0)]
    >>> digits(7, 3)
    [(2, 1), (1, 0)]
    """
    nonzero = []
    power = 0
    while n:
        n, digit = divmod(n, base)
        if digit:
            nonzero.append((digit, power))
        power += 1
    return nonzero[::-1]


def smooth_part(n: int, largest: int) -> int:
    """The largest divisor of n whose prime factors are all ≤ `largest`.

    >>> smooth_part(6, 2), smooth_part(25, 4), smooth_part(1000, 2)
    (2, 1, 8)
    """
    rest, factor = n, 2
    while factor <= largest and factor * factor <= rest:
        while rest % factor == 0:
            rest //= factor
        factor += 1
    # No divisor of `rest` below `factor` is left: where the loop ended with factor² > rest,
    # `rest` is 1 or one prime.
    if factor * factor > rest and rest <= largest:
        rest = 1
    return n // rest


@lru_cache(maxsize=4096)
def fewest_factors(n: int, largest: int) -> tuple[int, ...]:
    """n as a product of the fewest factors from 2..largest, ascending; () for n = 1.

    Among the shortest products the one with the smallest sum is taken (a round with factor f costs
    every node f - 1 messages), then the lexicographically first. Dividing greedily by the largest
    factor is not minimal: 216 = 6*6*6 with factors up to 8, where greedy finds 8*3*3*3.

    >>> fewest_factors(12, 3), fewest_factors(216, 8), fewest_factors(1, 5)
    ((2, 2, 3), (6, 6, 6), ())
    """
    if smooth_part(n, largest) != n:
        raise InvalidArgument("n", n, f"must have no prime factor above {largest}")
    divisors = _divisors(n)
    steps = [d for d in divisors if 2 <= d <= largest]
    best: dict[int, tuple[int, int, tuple[int, ...]]] = {1: (0, 0, ())}
    for product in divisors[1:]:
        options = []
        for factor in steps:
            if product % factor == 0 and product // factor in best:
                length, total, factors = best[product // factor]
                options.append((length + 1, total + factor, tuple(sorted((*factors, factor)))))
        best[product] = min(options)
    return best[n][2]


def _divisors(n: int) -> list[int]:
    """All divisors of n, ascending."""
    divisors = [1]
    factor = 2
    while n > 1:
        if factor * factor > n:
            factor = n
        powers = [1]
        while n % factor == 0:
            n //= factor
            powers.append(powers[-1] * factor)
        divisors = [d * power for d in divisors for power in powers]
        factor += 1
    return sorted(divisors)
