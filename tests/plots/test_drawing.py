"""Drawings of rounds: mirrors look like mirrors, weights stand apart."""

from __future__ import annotations

from itertools import combinations
from math import dist

import pytest

import basegraph as bg
from basegraph.plots.rounds import _Curve, _order, _spots


@pytest.mark.parametrize("n", [5, 6, 10, 24, 25, 37])
def test_mirrors_are_drawn_as_parallel_lines(n):
    rounds = list(bg.topology("euclid", n=n))
    order = _order(rounds)
    assert sorted(order) == list(range(n))
    for r in rounds:
        ends = zip(r.receivers.tolist(), r.senders.tolist(), strict=True)
        assert len({(order[i] + order[j]) % n for i, j in ends}) == 1


def test_other_nodes_are_drawn_in_turn():
    assert _order(list(bg.topology("base", n=6))) == [0, 1, 2, 3, 4, 5]
    assert _order(list(bg.topology("block-mix", n=28))) == list(range(28))


def test_weights_of_crossing_edges_stand_apart():
    around = [(0.0, 1.0), (0.8, 0.6), (0.8, -0.6), (0.0, -1.0), (-0.8, -0.6), (-0.8, 0.6)]
    curves = [_Curve(around[i], around[i + 3], 0.0) for i in range(3)]
    spots = _spots(curves, around)
    assert all(dist(a, b) > 0.25 for a, b in combinations(spots, 2))
    for spot, curve in zip(spots, curves, strict=True):
        assert dist(spot, curve.start) + dist(spot, curve.end) == pytest.approx(2)
