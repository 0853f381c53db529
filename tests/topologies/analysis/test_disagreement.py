"""Diagnostics of training, against the definition played out and against known values."""

from __future__ import annotations

from fractions import Fraction
from math import inf, sqrt

import numpy as np
import pytest

import basegraph as bg

KNOWN = [  # n = 25: spec, D(0.05), D(0.005), noise
    ("base:k=4", 0.026, 0.0004, 0.16),
    ("exponential", 0.041, 0.0005, 0.16),
    ("ring", 0.212, 0.0534, 2.58),
    ("one-peer-exponential", 0.206, 0.0045, 0.80),
    ("base:k=1", 0.212, 0.0070, 1.09),
    ("euclid", 0.245, 0.0069, 1.15),
]


@pytest.mark.parametrize(("spec", "large", "small", "noise"), KNOWN)
def test_known_values(spec, large, small, noise):
    t = bg.topology(spec, n=25)
    assert bg.training_disagreement(t, 0.05) == pytest.approx(large, abs=5.1e-4)
    assert bg.training_disagreement(t, 0.005) == pytest.approx(small, abs=5.1e-5)
    assert bg.noise_disagreement(t) == pytest.approx(noise, abs=5.1e-3)


@pytest.mark.parametrize("spec", ["base", "short", "ring", "one-peer-exponential", "base:k=3"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_training_disagreement_is_the_steady_state_of_its_definition(spec, momentum):
    """Optima e_j - 1/n, one at a time, trained until nothing changes from period to period."""
    n, rho = 7, 0.05
    t = bg.topology(spec, n=n)
    b = np.eye(n) - 1 / n
    x, u = np.zeros((n, n)), np.zeros((n, n))
    matrices = [r.matrix().toarray() for r in t]
    for _ in range(2000):
        total = 0.0
        for w in matrices:
            u = momentum * u + (x - b)
            x = w @ (x - rho * u)
            total += (x**2).sum()
    measured = bg.training_disagreement(t, rho, momentum)
    assert measured == pytest.approx(total / (n * t.period), rel=1e-10)


@pytest.mark.parametrize("spec", ["base", "ring", "one-peer-exponential", "short:k=2"])
def test_noise_disagreement_is_the_steady_state_of_its_definition(spec):
    n = 9
    t = bg.topology(spec, n=n)
    covariance = np.zeros((n, n))
    matrices = [r.matrix().toarray() for r in t]
    for _ in range(400):
        total = 0.0
        for w in matrices:
            covariance = w @ (covariance + np.eye(n) - 1 / n) @ w.T
            total += np.trace(covariance)
    assert bg.noise_disagreement(t) == pytest.approx(total / (n * t.period), rel=1e-10)


def test_complete_averaging_leaves_nothing():
    t = bg.topology("complete", n=12)
    assert bg.training_disagreement(t, 0.1) < 1e-25
    assert bg.noise_disagreement(t) < 1e-25


def test_nodes_that_are_not_connected_drift_apart():
    pairs = bg.Round.from_edges(4, {(0, 1): Fraction(1, 2), (2, 3): Fraction(1, 2)})
    assert bg.noise_disagreement(bg.Sequence([pairs])) == inf


@pytest.mark.parametrize(
    ("spec", "n", "rho"),
    [("ring", 25, 0.41), ("ring", 25, 50), ("base", 33, 50), ("steady", 25, 50)],
)
def test_no_steady_state_is_infinite(spec, n, rho):
    t = bg.topology(spec, n=n)
    assert bg.training_disagreement(t, rho) == inf
    assert bg.training_disagreement(t, rho, samples=3) == inf


def test_the_ring_settles_just_below_the_step_size_where_it_does_not():
    """A mode of eigenvalue -l settles below ρ = (1 - β)(1 + l) / l: 0.4048 for 25 nodes."""
    ring = bg.topology("ring", n=25)
    assert bg.training_disagreement(ring, 0.4047) < inf
    assert bg.training_disagreement(ring, 0.4049) == inf
    assert bg.training_disagreement(ring, 0.3, samples=50) < 5


@pytest.mark.parametrize("spec", ["base", "ring"])
def test_monte_carlo_estimates_the_same(spec):
    t = bg.topology(spec, n=50)
    exact = bg.training_disagreement(t, 0.05)
    estimate = bg.training_disagreement(t, 0.05, samples=400)
    assert estimate == pytest.approx(exact, rel=10 / sqrt(400 * 50))
    noise = bg.noise_disagreement(t, samples=100)
    assert noise == pytest.approx(bg.noise_disagreement(t), rel=0.05)


def test_monte_carlo_takes_random_topologies():
    t = bg.topology("one-peer-u-equidyn", n=20)
    assert 0.01 < bg.training_disagreement(t, 0.05, samples=5, steps=400) < 1
    with pytest.raises(bg.InvalidArgument, match="must have a period; or ask for samples"):
        bg.training_disagreement(t, 0.05)


def test_pair_weights():
    assert bg.pair_weights(bg.topology("ring", n=9)).largest == Fraction(1, 3)
    assert bg.pair_weights(bg.topology("base", n=25)).largest == Fraction(8, 9)
    assert bg.pair_weights(bg.topology("base", n=1)) == (0.0, 0)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"rho": 0}, "rho=0"),
        ({"rho": float("nan")}, "rho=nan"),
        ({"rho": 0.1, "momentum": 1.0}, "momentum=1.0"),
        ({"rho": 0.1, "samples": 0}, "samples=0"),
        ({"rho": 0.1, "samples": 1, "steps": 1}, "steps=1"),
    ],
)
def test_bad_arguments(arguments, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        bg.training_disagreement(bg.topology("ring", n=5), **arguments)
