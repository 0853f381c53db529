"""Block-mix and block-merge by themselves: layouts, weights, what they refuse."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

import numpy as np
import pytest

import basegraph as bg
from basegraph.topologies.paper._base import base
from basegraph.topologies.short._block_merge import BlockMerge, merge_degree
from basegraph.topologies.short._block_mix import BlockMix
from basegraph.topologies.short.corner_middle import CornerMiddle, has_room
from basegraph.topologies.short.laid_middle import LaidMiddle
from basegraph.topologies.short.layout import lay_out
from basegraph.topologies.transform.side_by_side import SideBySide
from support.assertions import assert_nodes_agree_with_rounds

F = Fraction
SLOW = pytest.mark.slow


def blocks(sizes, k):
    return SideBySide([(base(size, k), 1) for size in sizes], redundant=True)


def corner_mix(rows, columns, k, redundant):
    rows, columns = blocks(rows, k), blocks(columns, k)
    return BlockMix(rows, columns, CornerMiddle(rows, columns, redundant), k)


def starts(sizes):
    return np.cumsum([0, *sizes])


def partitions(n, rng):
    cuts = np.sort(rng.choice(np.arange(1, n), size=rng.integers(1, 5), replace=False))
    return np.diff([0, *cuts.tolist(), n]).tolist()


@pytest.mark.parametrize("k", [1, *(pytest.param(k, marks=SLOW) for k in (2, 3)), 4])
def test_any_two_partitions_with_room_are_exact(k):
    """`has_room` is all that block-mix asks for; without it, the middle cannot be laid out."""
    rng = np.random.Generator(np.random.Philox(key=k))
    valid = refused = 0
    for _ in range(150):
        n = int(rng.integers(6, 40))
        rows, columns = partitions(n, rng), partitions(n, rng)
        if has_room(starts(rows), starts(columns), n, k):
            t = corner_mix(rows, columns, k, redundant=bool(valid % 2))
            assert bg.verify(t).max_degree == t.max_degree <= k
            assert_nodes_agree_with_rounds(t, t.period)
            assert max(t.round(t.rows.period).weights, default=0) <= 0.5
            valid += 1
        else:
            refused += 1
    assert valid > 20
    assert refused > 20


@pytest.mark.parametrize("turns", [60, pytest.param(120, marks=SLOW)])
def test_any_layout_is_exact(turns):
    """Whatever `lay_out` finds; what it cannot find, it says."""
    rng = np.random.Generator(np.random.Philox(key=9))
    laid = refused = 0
    for turn in range(turns):
        n = int(rng.integers(6, 60))
        rows, columns = partitions(n, rng), partitions(n, rng)
        layout = lay_out(tuple(rows), tuple(columns), turn)
        if layout is None:
            refused += 1
            continue
        middle = LaidMiddle(layout, redundant=bool(turn % 2))
        t = BlockMix(blocks(rows, 1), blocks(columns, 1), middle, 1)
        places = [middle.place(i) for i in range(n)]
        assert [middle.node(place) for place in places] == list(range(n))
        assert layout.count.sum(axis=1).tolist() == rows
        assert layout.count.sum(axis=0).tolist() == columns
        assert bg.verify(t).max_degree == t.max_degree <= 1
        assert max(t.round(t.rows.period).weights, default=0) <= 0.5
        assert_nodes_agree_with_rounds(t, t.period)
        for some, others in ((rows, columns), (columns, rows)):  # Lemma 9 of middles.md
            assert all(size + gcd(size, n) >= len(others) for size in some)
        laid += 1
    assert laid > 20
    assert refused > 20


def test_layouts_are_the_same_everywhere():
    """Every rank lays out for itself: other draws are another topology."""
    layout = lay_out((8, 8, 6, 3), (8, 8, 6, 3), 5)
    assert layout.count.tolist() == [[3, 2, 2, 1], [2, 3, 2, 1], [2, 2, 1, 1], [1, 1, 1, 0]]
    assert layout.weights.tolist() == [7, 1, 1, 2, 2, 12]


def test_nobody_idles_in_the_middle_who_could_exchange():
    """All but one of 33; without redundant edges only those that consensus needs."""
    busy = [
        int((bg.topology("short", n=33, redundant=redundant)[3].degrees()).sum())
        for redundant in (True, False)
    ]
    assert busy == [32, 20]


def test_room_of_several_partitions_at_once():
    columns = np.stack([starts(c) for c in ([8, 8, 6, 3], [1, 1, 1, 22], [6, 8, 8, 3])])
    rows = starts([6, 8, 8, 3])
    together = has_room(rows, columns, 25, 1).tolist()
    assert together == [bool(has_room(rows, c, 25, 1)) for c in columns]
    assert len(set(together)) == 2


@pytest.mark.parametrize("name", ["block-mix", "block-merge"])
@pytest.mark.parametrize("k", [2, pytest.param(3, marks=SLOW), 5])
def test_proved_for_every_n_there_is(name, k):
    proved = 0
    for n in range(1, 90):
        try:
            t = bg.topology(name, n=n, k=k)
        except bg.InvalidArgument as refusal:
            assert name == "block-mix"
            assert refusal.argument == "n"
            continue
        assert bg.verify(t).max_degree <= k
        proved += 1
    assert proved >= 80


def test_block_mix_with_one_neighbor():
    sizes = []
    for n in range(1, 130):
        try:
            t = bg.topology("block-mix", n=n)
        except bg.InvalidArgument:
            continue
        bg.verify(t)
        sizes.append(n)
    assert len(sizes) > 115
    assert bg.topology("block-mix", n=25).period == 7


def test_the_middle_of_three_nodes():
    """Rows 2 + 1 and columns 2 + 1: P Q / n = 4/3, so one shared node and 1/3 left over."""
    t = corner_mix([2, 1], [2, 1], 1, redundant=True)
    assert t.period == 3
    assert t[0] == bg.Round.from_edges(3, {(0, 1): F(1, 2)})
    assert t[1] == bg.Round.from_edges(3, {(1, 2): F(1, 3)})
    assert t[2] == bg.Round.from_edges(3, {(0, 2): F(1, 2)})


def test_merging_four_three_and_three():
    """The nodes of the four with two neighbors in one three have one in the other."""
    assert merge_degree((4, 3, 3)) == 3
    t = BlockMerge(blocks([4, 3, 3], 3), "block-merge")
    last = t[1]
    assert last.degrees().tolist() == [3] * 10
    for i in range(10):
        shares = last.neighbors(i)
        own = 0 if i < 4 else 1 + (i - 4) // 3
        for block, members in enumerate([range(4), range(4, 7), range(7, 10)]):
            if block != own:
                heard = sum((shares.get(j, F(0)) for j in members), F(0))
                assert heard == F(len(members), 10)


def test_balanced_blocks_always_merge():
    for k in range(2, 8):
        count = k // 2 + 1
        for n in range(count, 80):
            small, larger = divmod(n, count)
            assert merge_degree((small + 1,) * larger + (small,) * (count - larger)) <= k


def test_length_bound_of_block_merge():
    for k in (2, 3, 4, 5, 6):
        h = k // 2 + 1
        for n in range(k + 2, 200):
            rounds = bg.topology("block-merge", n=n, k=k).period
            assert (k + 1) * h ** (rounds - 2) < n, (n, k)


def test_block_merge_needs_two_neighbors():
    with pytest.raises(bg.InvalidArgument, match="k=1: must be an integer ≥ 2"):
        bg.topology("block-merge", n=5, k=1)


def test_block_merge_refuses_more_nodes_than_it_can_count():
    with pytest.raises(bg.InvalidArgument, match="n=1000000000000: block-merge counts its edges"):
        bg.topology("block-merge", n=10**12)
    assert bg.topology("short", n=10**12, k=2).period == 29


def test_blocks_that_have_finished_repeat_or_idle():
    for redundant, degree in ((True, 1), (False, 0)):
        t = SideBySide([(base(8), 1), (base(2), 2), (base(1), 1)], redundant)
        assert (t.n, t.period, t.blocks) == (13, 3, 4)
        assert t.starts().tolist() == [t.start(b) for b in range(5)] == [0, 8, 10, 12, 13]
        assert [t.block_of(i) for i in (0, 9, 10, 12)] == [(0, 0), (1, 1), (2, 0), (3, 0)]
        assert t.round(2).degrees()[8:].tolist() == [degree] * 4 + [0]
        assert_nodes_agree_with_rounds(t, t.period)
