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
    assert [bg.shortest_possible(n, 1) for n in (3, 5, 7, 9, 25)] == [3, 4, 4, 5, 6]
    assert [bg.shortest_possible(n, 2) for n in (3, 5, 7, 9, 25)] == [1, 2, 2, 2, 3]
