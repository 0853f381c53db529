from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

import basegraph as bg
from basegraph.topologies.analysis.rates import reaches_average


def dense_rate(t):
    product = np.eye(t.n) - 1 / t.n
    for r in t:
        product = r.matrix().toarray() @ product
    return np.linalg.svd(product, compute_uv=False)[0]


@pytest.mark.parametrize("n", [10, 25, 300, 513])
@pytest.mark.parametrize(
    "spec",
    ["ring", "torus", "exponential", "one-peer-exponential", "d-equistatic:degree=4", "base:k=2"],
)
def test_consensus_rate_is_the_largest_singular_value(spec, n):
    t = bg.topology(spec, n=n)
    assert bg.consensus_rate(t) == pytest.approx(dense_rate(t), abs=1e-12)


@pytest.mark.parametrize("n", [100, 1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_consensus_rate_of_a_ring_is_known(n):
    expected = (1 + 2 * np.cos(2 * np.pi / n)) / 3
    assert bg.consensus_rate(bg.topology("ring", n=n)) == pytest.approx(expected, abs=1e-13)


def test_consensus_rate_of_any_graph():
    path = bg.from_networkx(nx.path_graph(2000))
    expected = (1 + 2 * np.cos(np.pi / 2000)) / 3
    assert bg.consensus_rate(path) == pytest.approx(expected, abs=1e-12)
    assert bg.consensus_rate(path[0]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 9, 1000])
def test_finite_time_means_rate_zero(n):
    assert bg.consensus_rate(bg.topology("base", n=n)) < 1e-14


def test_small_rates_are_not_zero():
    slow = bg.Sequence([bg.topology("exponential", n=300)[0]] * 40)
    assert bg.consensus_rate(slow) == pytest.approx(0.8**40, rel=1e-6)


def test_consensus_rate_needs_a_period():
    with pytest.raises(bg.InvalidArgument, match="must have a period"):
        bg.consensus_rate(bg.topology("one-peer-d-equidyn", n=5))


@pytest.mark.parametrize("n", [1, 2, 25, 300, 1000])
def test_what_reaches_the_average(n):
    assert bg.verify(bg.topology("short", n=n))
    assert reaches_average(bg.topology("short", n=n))
    assert reaches_average(bg.topology("ring", n=n)) == (n <= 2)


def test_a_rate_that_is_small_is_not_the_average():
    nearly = bg.Round.from_edges(2, {(0, 1): Fraction(1, 2) + Fraction(1, 10**9)})
    assert not reaches_average(bg.Sequence([nearly]))
