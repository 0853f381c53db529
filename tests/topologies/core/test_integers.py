from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basegraph import InvalidArgument
from basegraph.topologies.core.integers import (
    at_least,
    ceil_log,
    digits,
    fewest_factors,
    floor_log,
    node,
    smooth_part,
)
from support.reference import factorisations


@pytest.mark.parametrize("base", range(2, 12))
def test_logarithms_around_powers(base):
    for p in range(1, 20):
        power = base**p
        assert floor_log(power - 1, base) == p - 1
        assert floor_log(power, base) == floor_log(power + 1, base) == p
        assert ceil_log(power, base) == p
        assert ceil_log(power + 1, base) == p + 1


@given(st.integers(1, 10**12), st.integers(2, 50))
def test_digits_add_up(n, base):
    nonzero = digits(n, base)
    assert sum(a * base**p for a, p in nonzero) == n
    assert all(1 <= a < base for a, _ in nonzero)
    assert [p for _, p in nonzero] == sorted({p for _, p in nonzero}, reverse=True)


@given(st.integers(1, 3000), st.integers(1, 60))
def test_smooth_part_is_the_largest_smooth_divisor(n, largest):
    def smooth(d):
        for f in range(2, largest + 1):
            while d % f == 0:
                d //= f
        return d == 1

    assert smooth_part(n, largest) == max(d for d in range(1, n + 1) if n % d == 0 and smooth(d))


@pytest.mark.parametrize("largest", range(2, 11))
def test_fewest_factors_is_minimal(largest):
    for n in [*range(1, 400), 648, 1080, 1296]:
        ways = list(factorisations(n, largest))
        if ways:
            best = min(ways, key=lambda f: (len(f), sum(f), f))
            assert fewest_factors(n, largest) == best
        else:
            with pytest.raises(InvalidArgument, match=f"n={n}: .*above {largest}"):
                fewest_factors(n, largest)


@pytest.mark.parametrize("value", [0, -3, 2.0, "3", None, True, 1 + 0j])
def test_not_a_count(value):
    with pytest.raises(InvalidArgument, match="must be an integer ≥ 1"):
        at_least(1, n=value)


@pytest.mark.parametrize("value", [-1, 5, 1.0, None])
def test_not_a_node(value):
    with pytest.raises(InvalidArgument, match="must be a node, an integer from 0 to 4"):
        node(value, 5)
