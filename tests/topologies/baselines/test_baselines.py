from __future__ import annotations

from fractions import Fraction

import networkx as nx
import pytest

import basegraph as bg
from basegraph.topologies.core.random import integers

F = Fraction


def test_ring():
    assert bg.topology("ring", n=1)[0].neighbors(0) == {}
    assert bg.topology("ring", n=2)[0].neighbors(0) == {1: F(1, 2)}
    assert bg.topology("ring", n=3)[0].neighbors(0) == {1: F(1, 3), 2: F(1, 3)}
    assert bg.topology("ring", n=9)[0].neighbors(4) == {3: F(1, 3), 5: F(1, 3)}


@pytest.mark.parametrize(
    ("n", "a", "b"), [(12, 3, 4), (25, 5, 5), (16, 4, 4), (8, 2, 4), (7, 1, 7)]
)
def test_torus_is_the_most_square_grid(n, a, b):
    grid = nx.grid_2d_graph(a, b, periodic=True)
    r = bg.topology("torus", n=n)[0]
    for row, column in grid:
        expected = {x * b + y for x, y in grid[row, column]} - {row * b + column}
        assert r.neighbors(row * b + column) == dict.fromkeys(expected, F(1, 5))


def test_torus_says_where_it_is_slower_than_a_ring():
    for n in range(2, 30):
        torus, ring = bg.topology("torus", n=n), bg.topology("ring", n=n)
        slower = bg.consensus_rate(torus) > bg.consensus_rate(ring)
        assert ("slower than `ring`" in torus.note) == slower, n
        assert ring.note == ""


@pytest.mark.parametrize(("n", "degree"), [(1, 0), (2, 1), (3, 2), (8, 3), (9, 4), (25, 5)])
def test_exponential(n, degree):
    t = bg.topology("exponential", n=n)
    assert t.max_degree == degree
    weight = F(1, degree + 1)
    assert t[0].neighbors(0) == {-(2**j) % n: weight for j in range(degree)}


def test_one_peer_exponential_is_finite_time_for_powers_of_two_only():
    for n in range(1, 70):
        t = bg.topology("one-peer-exponential", n=n)
        if n & (n - 1) == 0:
            bg.verify(t)
        else:
            with pytest.raises(bg.NotFiniteTime):
                bg.verify(t)


def test_one_peer_hypercube():
    t = bg.topology("one-peer-hypercube", n=16)
    for step in range(4):
        assert all(t.neighbors(i, step) == {i ^ (1 << step): F(1, 2)} for i in range(16))
    with pytest.raises(bg.InvalidArgument, match="n=6: one-peer-hypercube needs n to be a power"):
        bg.topology("one-peer-hypercube", n=6)


def test_d_equistatic_is_the_mean_of_its_draws():
    n, m = 7, 12
    draws = integers(1, n, m, seed=3, step=0)
    assert len(set(draws)) < m  # with replacement
    expected = {-u % n: F(draws.count(u) * (n - 1), m * n) for u in draws}
    assert bg.topology("d-equistatic", n=n, degree=m, seed=3)[0].neighbors(0) == expected


def test_u_equistatic_is_the_symmetric_part():
    n, m = 9, 5
    one = bg.topology("d-equistatic", n=n, degree=m, seed=1)[0].matrix().toarray()
    two = bg.topology("u-equistatic", n=n, degree=m, seed=1)[0].matrix().toarray()
    assert abs(two - (one + one.T) / 2).max() < 1e-15


def scanned_matching(n: int, u: int, s: int) -> dict[int, int]:
    """MATH: scan i = s, s+1, ... and match i with i+u when both are free."""
    peer: dict[int, int] = {}
    for i in ((s + y) % n for y in range(n)):
        j = (i + u) % n
        if i not in peer and j not in peer:
            peer[i], peer[j] = j, i
    return peer


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9, 12, 13, 30])
def test_one_peer_u_equidyn_is_the_scanned_matching(n):
    t = bg.topology("one-peer-u-equidyn", n=n, seed=2)
    shifts = set()
    for step in range(150):
        (u,) = integers(1, n, 1, seed=2, step=step)
        (s,) = integers(0, n, 1, seed=2, step=step, stream=1)
        shifts.add(u)
        expected = scanned_matching(n, u, s)
        r = t.round(step)
        weight = F(n - 1, 2 * n)
        for i in range(n):
            assert r.neighbors(i) == ({expected[i]: weight} if i in expected else {})
    assert len(shifts) == n - 1


@pytest.mark.parametrize("name", ["one-peer-d-equidyn", "one-peer-u-equidyn"])
@pytest.mark.parametrize(("eta", "exact"), [("1/3", F(1, 3)), (0.1, F(1, 10)), (1, F(1))])
def test_eta(name, eta, exact):
    t = bg.topology(name, n=6, eta=eta)
    weights = {w for step in range(4) for i in range(6) for w in t.neighbors(i, step).values()}
    assert weights == {exact * F(5, 6)}


@pytest.mark.parametrize("eta", [0, -1, 1.5, "a", float("nan"), "1/0", True])
def test_bad_eta(eta):
    with pytest.raises(bg.InvalidArgument, match=r"eta=.*must be a number in \(0, 1\]"):
        bg.topology("one-peer-d-equidyn", n=6, eta=eta)


def test_draws_depend_on_seed_step_and_stream_only():
    assert integers(0, 1000, 4, seed=1, step=2) == [377, 50, 683, 234]
    assert integers(0, 1000, 4, seed=1, step=2) != integers(0, 1000, 4, seed=2, step=1)
    assert integers(0, 1000, 4, seed=1, step=2, stream=1) != integers(0, 1000, 4, seed=1, step=2)
    drawn = integers(0, 7, 7000, seed=0, step=0)
    assert all(850 < drawn.count(value) < 1150 for value in range(7))
