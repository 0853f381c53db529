"""What was searched for: every entry of every table is proved, and is shorter than the rest."""

from __future__ import annotations

import numpy as np
import pytest

import basegraph as bg
from basegraph.topologies.paper._base import base
from basegraph.topologies.short._block_mix import BlockMix
from basegraph.topologies.short._euclid import euclid
from basegraph.topologies.short._short import short
from basegraph.topologies.short.corner_middle import CornerMiddle, has_room, has_room_flipped
from basegraph.topologies.short.free_mix import FreeMix, free_mix
from basegraph.topologies.short.planner import Planner, default_planner
from basegraph.topologies.short.plans import FreeMixPlan, MixPlan
from basegraph.topologies.transform.side_by_side import SideBySide
from support.assertions import assert_nodes_agree_with_rounds

PLANNER = default_planner()
CORNERS = [(n, k) for k, table in PLANNER.corners.items() for n in table]
FREE = [(n, k) for k, table in PLANNER.free.items() for n in table]


def without(tables, n, k):
    """The tables of all k without the entry for n and this one."""
    left = {size: entry for size, entry in tables[k].items() if size != n}
    return {**tables, k: left}


@pytest.mark.parametrize(("n", "k"), CORNERS)
def test_the_tables_of_corners_are_proved(n, k):
    assert isinstance(PLANNER.best_plan(n, k), MixPlan)
    t = bg.topology("short", n=n, k=k)
    assert bg.verify(t, method="exact" if n < 1000 else "freivalds").max_degree <= k
    if n < 300:
        assert_nodes_agree_with_rounds(t, t.period)


@pytest.mark.parametrize(("n", "k"), FREE)
@pytest.mark.parametrize("redundant", [True, False])
def test_the_tables_of_free_middles_are_proved(n, k, redundant):
    assert isinstance(PLANNER.best_plan(n, k), FreeMixPlan)
    t = bg.topology("short", n=n, k=k, redundant=redundant)
    certificate = bg.verify(t)
    assert certificate.method == "exact"
    assert certificate.period == PLANNER.length(n, k)
    assert certificate.max_degree <= k
    assert_nodes_agree_with_rounds(t, t.period)


@pytest.mark.parametrize(("n", "k"), [(n, k) for n, k in [*CORNERS, *FREE] if n <= 100])
def test_entries_are_shorter_than_what_is_known_without_them(n, k):
    others = Planner(PLANNER.laid, PLANNER.corners, without(PLANNER.free, n, k))
    if (n, k) in CORNERS:
        others = Planner(PLANNER.laid, without(PLANNER.corners, n, k), PLANNER.free)
    assert PLANNER.length(n, k) < others.length(n, k)


@pytest.mark.parametrize(
    ("n", "k", "rounds"),
    [
        (11, 1, 5),
        (17, 1, 6),
        (19, 1, 6),
        (14, 2, 3),
        (29, 1, 7),
        (31, 1, 7),
        (35, 1, 7),
        (47, 1, 8),
        (76, 2, 5),
        (83, 1, 9),
        (151, 1, 10),
        (2047, 1, 15),
        (4095, 1, 16),
        (8191, 1, 17),
    ],
)
def test_lengths_that_were_searched_for(n, k, rounds):
    assert bg.topology("short", n=n, k=k).period == rounds


def test_late_rows_and_columns_are_the_same_turned_round():
    """Five nodes as 3* and 2: transposed, the order is the opposite and so are rows and columns."""
    mix = PLANNER.free[1][35]
    assert mix.late_rows == mix.late_columns == (5,)
    rounds = list(free_mix(mix, 1, "late", True, short))
    bg.verify(rounds)
    bg.verify(rounds[::-1])
    rows = [r.weights_by_arc() for r in rounds[:3]]
    last = {arc for arcs in rows for arc in arcs if min(arc) >= 30}
    mirrors = {(30 + i, 30 + j) for r in list(euclid(5))[:3] for i, j in r.weights_by_arc()}
    assert last == mirrors


def test_a_wrong_middle_is_caught():
    mix = PLANNER.free[1][17]
    first, second = mix.middle
    (i, j, _), *rest = second
    wrong = mix._replace(middle=(first, ((i, j, "1/7"), *rest)))
    with pytest.raises(bg.NotFiniteTime):
        bg.verify(free_mix(wrong, 1, "wrong", True, short))


def test_the_length_of_a_free_middle_counts_late_blocks_for_one_less():
    mix = FreeMix(((4, 11), (3, 1)), ((20, 1), (16, 1), (11, 1)), (0,) * 47, ((),), (3,))
    assert mix.rounds(lambda size: {3: 3, 4: 2, 20: 5, 16: 4, 11: 5}[size]) == 8


@pytest.mark.parametrize(
    ("k", "draws"),
    [(1, 80), *(pytest.param(k, 400, marks=pytest.mark.slow) for k in (1, 2, 3))],
)
def test_any_flipped_corners_with_room_are_exact(k, draws):
    rng = np.random.Generator(np.random.Philox(key=k))
    exact = refused = 0
    for _ in range(draws):
        n = int(rng.integers(12, 60))
        lines = []
        for _ in range(2):
            cuts = np.sort(rng.choice(np.arange(1, n), size=rng.integers(1, 4), replace=False))
            lines.append(np.array([0, *cuts, n]))
        rest = np.outer(*lines) % n
        corners = [(int(a), int(b)) for a, b in np.argwhere(rest > 0) if rng.integers(0, 3) == 0]
        flipped = tuple(corners)
        if not has_room_flipped(*lines, n, k, flipped):
            refused += 1
            continue
        blocks = [SideBySide([(base(int(b), k), 1) for b in np.diff(s)], True) for s in lines]
        middle = CornerMiddle(*blocks, redundant=bool(exact % 2), flipped=flipped)
        t = BlockMix(*blocks, middle, k)
        assert bg.verify(t).max_degree <= k
        assert_nodes_agree_with_rounds(t, t.period)
        if not flipped:
            assert has_room(*lines, n, k)
        exact += 1
    assert exact > 20
    assert refused > 20
