"""The shortest known sequences: proved, never longer than base, as short as is known."""

from __future__ import annotations

from fractions import Fraction
from statistics import fmean

import pytest

import basegraph as bg
from basegraph.topologies.paper._base import base_length
from basegraph.topologies.short.planner import default_planner
from basegraph.topologies.short.plans import EuclidPlan, LaidMixPlan, MergePlan, MixPlan
from support.assertions import assert_nodes_agree_with_rounds
from support.golden import golden

PLANNER = default_planner()
SLOW = pytest.mark.slow


def assert_proved_and_not_longer_than_base(n, k):
    t = bg.topology("short", n=n, k=k)
    certificate = bg.verify(t)
    assert certificate.method == "exact"
    assert certificate.max_degree == t.max_degree <= k
    assert bg.shortest_possible(n, k) <= t.period <= bg.topology("base", n=n, k=k).period
    assert t.period == max(1, PLANNER.length(n, k))


@pytest.mark.parametrize("sizes", [range(1, 151), pytest.param(range(151, 301), marks=SLOW)])
def test_proved_for_every_n_with_one_neighbor(sizes):
    for n in sizes:
        assert_proved_and_not_longer_than_base(n, 1)


@pytest.mark.parametrize("k", [2, *(pytest.param(k, marks=SLOW) for k in (3, 4)), 5])
def test_proved_for_every_n(k):
    for n in range(1, 131):
        assert_proved_and_not_longer_than_base(n, k)


@pytest.mark.parametrize("k", [1, *(pytest.param(k, marks=SLOW) for k in (2, 3)), 7])
def test_proved_around_powers(k):
    powers = [(k + 1) ** p for p in range(1, 12) if 300 < (k + 1) ** p <= 2200]
    for n in [m + d for m in powers for d in (-1, 0, 1)] + [997, 1511]:
        assert_proved_and_not_longer_than_base(n, k)


@pytest.mark.parametrize(
    ("n", "k"),
    [
        (10_007, 1),
        (12_289, 2),
        *(pytest.param(n, k, marks=SLOW) for n, k in [(65_537, 1), (100_001, 1), (99_991, 3)]),
    ],
)
def test_proved_for_large_n(n, k):
    certificate = bg.verify(bg.topology("short", n=n, k=k), method="freivalds", seed=1)
    assert certificate.max_degree <= k
    assert certificate.period < bg.topology("base", n=n, k=k).period


@pytest.mark.parametrize("n", [n for n in PLANNER.laid if n > 300])
def test_the_table_of_layouts_is_proved(n):
    t = bg.topology("short", n=n)
    assert t.period == PLANNER.length(n, 1)
    assert bg.verify(t).method == "exact"


def test_as_short_as_another_program_finds():
    known = golden("short")["rounds"]
    assert len(known) == 63
    for n, rounds in known.items():
        assert bg.topology("short", n=int(n)).period <= rounds, n


@pytest.mark.parametrize(
    ("k", "sizes", "mean"),
    [
        (1, range(129, 257), 10.16),
        (2, range(2, 129), 5.0),
        (3, range(2, 129), 3.965),
        (4, range(2, 129), 3.345),
    ],
)
def test_mean_lengths(k, sizes, mean):
    assert fmean(PLANNER.length(n, k) for n in sizes) <= mean


@pytest.mark.parametrize(
    ("n", "k", "rounds"),
    [
        (25, 1, 7),
        (33, 1, 7),
        (46, 1, 7),
        (66, 1, 7),
        (127, 1, 10),
        (198, 1, 9),
        (1009, 1, 13),
        (1511, 1, 14),
        (2039, 1, 15),
        (25, 2, 4),
        (25, 3, 3),
        (10, 3, 2),
        (25, 4, 2),
    ],
)
def test_golden_lengths(n, k, rounds):
    assert bg.topology("short", n=n, k=k).period == rounds


def test_the_same_plan_everywhere():
    """Every rank plans for itself: a changed plan is a changed topology."""
    line = ((19, 1), (64, 15), (18, 1))
    assert PLANNER.best_plan(997, 1) == MixPlan(13, line, line, 1)
    assert PLANNER.best_plan(10, 3) == MergePlan(2, (4, 3, 3), 3)
    assert PLANNER.best_plan(27, 1) == EuclidPlan(7, 27)
    assert PLANNER.best_plan(46, 1) == LaidMixPlan(7, ((8, 5), (6, 1)), ((8, 5), (6, 1)), 1)


@pytest.mark.parametrize("k", range(1, 8))
def test_length_of_base_is_known_without_building_it(k):
    for n in [*range(1, 200), 243, 1000, 4095, 4096, 10**6, 999_983]:
        assert base_length(n, k) == bg.topology("base", n=n, k=k).period


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_one_node_agrees_with_the_round(k):
    for n in (1, 5, 25, 26, 33, 37, 61, 66, 97, 150, 211):
        for redundant in (True, False):
            t = bg.topology("short", n=n, k=k, redundant=redundant)
            assert_nodes_agree_with_rounds(t, t.period)


@pytest.mark.parametrize("k", [1, pytest.param(2, marks=SLOW), 3])
def test_redundant_edges_can_be_left_out(k):
    fewer = 0
    for n in range(1, 100):
        full = bg.topology("short", n=n, k=k)
        lean = bg.verify(bg.topology("short", n=n, k=k, redundant=False))
        arcs = sum(len(r.receivers) for r in full)
        assert (lean.period, lean.max_degree <= k) == (full.period, True)
        assert lean.arcs <= arcs
        fewer += lean.arcs < arcs
    assert fewer > 5


def test_a_million_nodes_one_round_and_one_node():
    t = bg.topology("short", n=10**6)
    assert t.period == 23
    for step in (3, 11, 12, 20):
        r = t.round(step)
        for i in (0, 15_624, 777_777, 999_999):
            assert t.neighbors(i, step) == r.neighbors(i)
    huge = bg.topology("short", n=10**9 + 7)
    for step in range(huge.period):
        for peer, weight in huge.neighbors(123_456_789, step).items():
            assert huge.neighbors(peer, step) == {123_456_789: weight}


@pytest.mark.parametrize("n", [33, 37])
def test_every_one_wrong_weight_is_caught(n):
    """In block-mix, laid out by turns and by corners, any edge that consensus needs."""
    rounds = list(bg.topology("short", n=n, redundant=False))
    for step, r in enumerate(rounds):
        pairs = zip(r.receivers.tolist(), r.senders.tolist(), strict=True)
        weights = map(Fraction, r.numerators.tolist(), r.denominators.tolist())
        arcs = dict(zip(pairs, weights, strict=True))
        i, j = max(arcs)
        wrong = {**arcs, (i, j): arcs[i, j] / 2, (j, i): arcs[i, j] / 2}
        changed = [*rounds[:step], bg.Round.from_arcs(n, wrong), *rounds[step + 1 :]]
        with pytest.raises(bg.NotFiniteTime):
            bg.verify(changed)
