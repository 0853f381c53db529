"""The diagnostics as they are shown: exact where said, estimates near what they estimate."""

from __future__ import annotations

from math import inf

import pytest

import basegraph as bg
from basegraph.topologies.analysis import diagnostics


@pytest.mark.parametrize("spec", ["base", "short:k=2", "exponential", "one-peer-exponential"])
def test_estimates_are_near_the_exact_values(spec, monkeypatch):
    t = bg.topology(spec, n=150)
    exact = bg.diagnose(t)
    monkeypatch.setattr(diagnostics, "EXACT_NODES", 100)
    estimate = bg.diagnose(t)
    assert (exact.samples, estimate.samples) == (None, 2**14 // 150)
    for rho in (0.05, 0.005):
        assert estimate.training[rho] == pytest.approx(exact.training[rho], rel=0.05)
        assert estimate.training[rho] != exact.training[rho]
    assert estimate.noise == pytest.approx(exact.noise, rel=0.05)
    assert estimate.weights == exact.weights


@pytest.mark.parametrize(("spec", "n"), [("ring", 301), ("ring", 1000), ("torus", 1000)])
def test_noise_is_not_estimated_where_it_takes_too_long_to_settle(spec, n):
    measured = bg.diagnose(bg.topology(spec, n=n))
    assert measured.noise is None
    assert measured.row()["noise"] == "not settled"
    assert 0 < measured.training[0.05] < 1


def test_no_steady_state_is_said():
    swap = bg.Sequence([bg.Round.from_edges(2, {(0, 1): 1})])
    measured = bg.diagnose(swap)._replace(training={0.05: 0.25, 0.5: inf})
    assert measured.row()["D(0.05)"] == 0.25
    assert measured.row()["D(0.5)"] == "infinite (no steady state)"


def test_nodes_that_are_not_connected():
    apart = bg.Sequence([bg.Round.from_edges(4, {(0, 1): "1/2", (2, 3): "1/2"})])
    measured = bg.diagnose(apart)
    assert measured.noise == inf
    assert measured.row()["noise"] == "infinite"


def test_random_topologies_have_none():
    with pytest.raises(bg.InvalidArgument, match="period"):
        bg.diagnose(bg.topology("one-peer-d-equidyn", n=8))


@pytest.mark.parametrize(
    ("spec", "n", "quick"),
    [
        ("complete", 300, True),
        ("complete", 301, False),
        ("base", 16_000, True),
        ("ring", 10**5, False),
    ],
)
def test_what_is_quick(spec, n, quick):
    assert diagnostics.is_quick(bg.topology(spec, n=n)) == quick
