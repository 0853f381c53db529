from __future__ import annotations

import pytest

import basegraph as bg


@pytest.mark.parametrize("k", range(1, 6))
def test_length_bounds_around_powers(k):
    b = k + 1
    for p in range(1, 8):
        assert bg.shortest_possible(b**p, k) == p
        assert bg.theorem_1_length(b**p, k) == 2 * p + 2
        assert bg.theorem_1_length(b**p - 1, k) == 2 * p + (b**p > 2)
    assert bg.shortest_possible(1, k) == 0
    assert bg.theorem_1_length(1, k) == 2


def test_odd_numbers_of_nodes_need_one_round_more_with_one_neighbor():
    assert [bg.shortest_possible(n, 1) for n in (3, 5, 9, 11, 25)] == [3, 4, 5, 5, 6]
    assert [bg.shortest_possible(n, 2) for n in (3, 5, 7, 9, 25)] == [1, 2, 2, 2, 3]


def test_just_below_a_power_of_two_one_neighbor_needs_one_round_more():
    """Lemmas 12 and 14 of docs/explanation/bounds.md; they say nothing of 2, 3 and 6 nodes."""
    assert [bg.shortest_possible(n, 1) for n in (2, 3, 6)] == [1, 3, 3]
    for m in range(3, 40):
        assert bg.shortest_possible(2**m - 1, 1) == m + 2
        assert bg.shortest_possible(2**m - 3, 1) == m + 1
    for m in range(4, 40):
        assert bg.shortest_possible(2**m - 2, 1) == m + 1
    assert [bg.shortest_possible(n, 3) for n in (14, 15, 16)] == [2, 2, 2]


@pytest.mark.parametrize("n", [7, 14, 15, 30])
def test_bounds_just_below_a_power_of_two_are_reached(n):
    assert bg.topology("short", n=n).period == bg.shortest_possible(n, 1)
