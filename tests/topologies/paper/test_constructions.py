"""The paper's three constructions: against its pseudo-code, its examples and its theorems."""

from __future__ import annotations

from fractions import Fraction

import pytest

import basegraph as bg
from basegraph import Origin
from support import reference
from support.assertions import assert_nodes_agree_with_rounds
from support.golden import golden

F = Fraction


def edges_of(r):
    arcs = zip(r.receivers, r.senders, r.numerators, r.denominators, r.origins, strict=True)
    return {
        (int(i), int(j)): (F(int(a), int(b)), Origin(o).label) for i, j, a, b, o in arcs if i < j
    }


@pytest.mark.parametrize("k", range(1, 8))
@pytest.mark.parametrize("name", ["simple-base", "base"])
@pytest.mark.parametrize("isolated", ["first", "last"])
def test_follows_the_pseudo_code_edge_for_edge(name, k, isolated):
    literal = {"simple-base": reference.simple_base, "base": reference.base}[name]
    for n in [*range(1, 51), 61, 63, 64, 65, 81, 100, 124, 125, 126]:
        t = bg.topology(name, n=n, k=k, isolated=isolated)
        assert [edges_of(r) for r in t] == literal(list(range(n)), k, isolated), (n, k)


@pytest.mark.parametrize("k", range(1, 8))
def test_hyper_hypercube_follows_the_pseudo_code(k):
    for n in range(1, 130):
        if reference.is_smooth(n, k + 1):
            expected = reference.hyper_hypercube(list(range(n)), k, "Alg. 1 line 9")
            assert [edges_of(r) for r in bg.topology("hyper-hypercube", n=n, k=k)] == expected
        else:
            with pytest.raises(bg.InvalidArgument, match=f"n={n}: .*prime factor above {k + 1}"):
                bg.topology("hyper-hypercube", n=n, k=k)


def test_golden_five_nodes():
    t = bg.topology("simple-base", n=5, k=1)
    half, bridge = F(1, 2), F(4, 5)
    inside = [{(0, 1): half, (2, 3): half}, {(0, 2): half, (1, 3): half}]
    expected = [*inside, {(0, 4): bridge, (1, 2): half}, *inside]
    assert [{p: w for p, (w, _) in edges_of(r).items()} for r in t] == expected
    assert edges_of(t[2])[1, 2] == (half, Origin.LINE_20.label)


def test_golden_six_nodes():
    base, simple = bg.topology("base", n=6), bg.topology("simple-base", n=6)
    assert (base.period, simple.period) == (4, 5)
    assert [{p: w for p, (w, _) in edges_of(r).items()} for r in base] == [
        {(0, 1): F(1, 2), (3, 4): F(1, 2)},
        {(0, 2): F(2, 3), (3, 5): F(2, 3)},
        {(0, 1): F(1, 2), (3, 4): F(1, 2)},
        {(0, 3): F(1, 2), (1, 4): F(1, 2), (2, 5): F(1, 2)},
    ]
    assert {line for _, line in edges_of(base[3]).values()} == {Origin.ACROSS.label}
    # The paper's nodes 3 and 4, which agree after the third round, are 0 and 1 here.
    assert {p for p, (_, line) in edges_of(simple[2]).items() if "15" in line} == {(0, 4), (1, 5)}
    assert simple[3].neighbors(0) == {1: F(1, 2)}


def test_golden_five_and_six_nodes_of_the_paper():
    """Its figures, nodes counted from 1 as there."""

    def of_the_paper(name, n):
        t = bg.topology(f"{name}:k=1,isolated=last", n=n)
        return [{(i + 1, j + 1): w for (i, j), (w, _) in edges_of(r).items()} for r in t]

    half, two_thirds = F(1, 2), F(2, 3)
    inside = [{(1, 2): half, (3, 4): half}, {(1, 3): half, (2, 4): half}]
    five = [*inside, {(4, 5): F(4, 5), (1, 2): half}, *inside]
    assert of_the_paper("simple-base", 5) == of_the_paper("base", 5) == five
    simple = [{**edges, (5, 6): half} for edges in inside]
    bridge = {(4, 5): two_thirds, (3, 6): two_thirds, (1, 2): half}
    assert of_the_paper("simple-base", 6) == [*simple, bridge, *simple]
    pairs = {(1, 2): half, (4, 5): half}
    assert of_the_paper("base", 6) == [
        pairs,
        {(2, 3): two_thirds, (5, 6): two_thirds},
        pairs,
        {(1, 4): half, (2, 5): half, (3, 6): half},
    ]


def test_the_paper_s_choice_of_isolated_nodes_is_another_graph():
    ours, published = (bg.topology(f"base:isolated={which}", n=25) for which in ("first", "last"))
    assert ours.spec == "base:k=1"
    assert published.spec == "base:k=1,isolated=last"
    assert bg.training_disagreement(ours, 0.05) == pytest.approx(0.2121, abs=5e-5)
    assert bg.training_disagreement(published, 0.05) == pytest.approx(0.2194, abs=5e-5)
    for n in (5, 25):  # also smooth n: nothing is isolated there
        assert bg.topology(published.spec, n=n).period == bg.topology("base", n=n).period
    assert list(bg.topology("base:isolated=last", n=16)) == list(bg.topology("base", n=16))


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_proved_with_the_paper_s_choice(k):
    for name in ("simple-base", "base"):
        for n in [*range(1, 51), 61, 81, 100]:
            t = bg.topology(name, n=n, k=k, isolated="last")
            assert bg.verify(t).max_degree == t.max_degree <= k
            if n in (25, 61, 100):
                assert_nodes_agree_with_rounds(t, t.period)
                lean = bg.topology(name, n=n, k=k, isolated="last", redundant=False)
                assert bg.verify(lean).period == t.period


def test_golden_seven_nodes_two_neighbors():
    t = bg.topology("base", n=7, k=2)
    assert t.period == 4
    third = F(1, 3)
    assert {p: w for p, (w, _) in edges_of(t[2]).items() if 6 in p} == {
        (0, 6): F(3, 7),
        (3, 6): F(3, 7),
    }
    triangles = {(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)}
    assert {p for p, (w, _) in edges_of(t[3]).items() if w == third} == triangles


@pytest.mark.parametrize(
    ("n", "k", "rounds"),
    [(25, 1, 9), (25, 2, 6), (25, 3, 5), (25, 4, 2), (5, 1, 5), (6, 1, 4), (7, 2, 4)],
)
def test_golden_lengths(n, k, rounds):
    assert bg.topology("base", n=n, k=k).period == rounds


def test_lengths_of_an_independent_program():
    known = golden("lengths")
    compared = 0
    for name in ("hyper-hypercube", "simple-base", "base"):
        for k, lengths in known[name].items():
            for n, length in lengths.items():
                assert bg.topology(name, n=int(n), k=int(k)).period == length, (name, n, k)
                compared += 1
    assert compared > 1800


def prove(name, n, k):
    t = bg.topology(name, n=n, k=k)
    certificate = bg.verify(t)
    assert certificate.method == "exact"
    assert certificate.max_degree == t.max_degree <= k
    assert bg.shortest_possible(n, k) <= t.period or n == 1
    assert t.period <= bg.theorem_1_length(n, k)


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(range(1, 101), id="to-100"),
        pytest.param(range(101, 301), id="to-300", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("k", range(1, 10))
@pytest.mark.parametrize("name", ["simple-base", "base"])
def test_proved_for_every_n(name, k, sizes):
    for n in sizes:
        prove(name, n, k)


@pytest.mark.parametrize("k", range(1, 10))
def test_proved_around_powers(k):
    """Where a floating-point logarithm picks the wrong digit."""
    powers = [(k + 1) ** p for p in range(1, 12) if (k + 1) ** p <= 730]
    sizes = {n + d for n in powers for d in (-1, 0, 1)} | {243, 244, 300, 325, 485, 729}
    for n in sorted(sizes):
        prove("base", n, k)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3, 9])
def test_proved_around_a_thousand(k):
    for n in (999, 1000, 1001, 1023, 1024, 1025):
        prove("base", n, k)


@pytest.mark.parametrize("name", ["hyper-hypercube", "simple-base", "base"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 12])
def test_many_neighbors_make_one_complete_round(name, n):
    for k in (max(1, n - 1), n, n + 5, 10**9):
        t = bg.topology(name, n=n, k=k)
        assert t.period == 1
        assert t[0] == bg.topology("complete", n=n)[0]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_redundant_edges_can_be_left_out(k):
    for name in ("simple-base", "base"):
        for n in [*range(1, 50), 61, 100, 119]:
            full = bg.topology(name, n=n, k=k)
            lean = bg.topology(name, n=n, k=k, redundant=False)
            assert bg.verify(lean).period == full.period
            for a, b in zip(full, lean, strict=True):
                kept = {p: e for p, e in edges_of(a).items() if not e[1].endswith(("20", "27"))}
                assert edges_of(b) == kept


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_one_node_agrees_with_the_round(k):
    for name in ("simple-base", "base"):
        for n in (1, 5, 25, 61, 124, 150):
            t = bg.topology(name, n=n, k=k)
            assert_nodes_agree_with_rounds(t, t.period)


def test_the_paper_says_these_are_the_same():
    def same(a, b):
        return list(a) == list(b)

    assert same(bg.topology("base", n=24, k=3), bg.topology("base", n=24, k=4))
    for n in (2, 4, 16, 64):
        cube = bg.topology("one-peer-hypercube", n=n)
        assert same(bg.topology("base", n=n, k=1), cube)
        assert same(bg.topology("base", n=n, k=2), cube)
        assert same(bg.topology("base", n=n, k=3), bg.topology("base", n=n, k=4))


def test_a_million_nodes_one_round_and_one_node():
    t = bg.topology("base", n=10**6)
    assert t.period == 33
    r = t.round(20)
    for i in (0, 15624, 999_999):
        assert t.neighbors(i, 20) == r.neighbors(i)
    huge = bg.topology("base", n=10**12)
    ((peer, weight),) = huge.neighbors(123_456_789, 5).items()
    assert huge.neighbors(peer, 5) == {123_456_789: weight}
