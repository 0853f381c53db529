from __future__ import annotations

import numpy as np
import pytest

import basegraph as bg

SPECS = ["base:k=1", "base:k=3", "ring", "torus", "exponential", "one-peer-u-equidyn:seed=1"]


def gaussian(*shape, dtype=np.float64):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("shape", [(12,), (12, 5)])
def test_agrees_with_dense_matrices(spec, shape):
    t, x = bg.topology(spec, n=12), gaussian(*shape)
    expected = []
    y = x
    for step in range(9):
        expected.append(np.square(y - y.mean(axis=0)).sum() / 12)
        y = t.round(step).matrix().toarray() @ y
    assert np.allclose(bg.consensus_error(t, x, 8), expected, rtol=1e-12, atol=1e-28)


@pytest.mark.parametrize("k", range(1, 6))
def test_finite_time_sequences_reach_the_floor_after_exactly_their_period(k):
    for n in range(2, 201):
        t = bg.topology("base", n=n, k=k)
        errors = bg.consensus_error(t, gaussian(n), t.period)
        assert errors[-1] <= 1e-28, n
        assert errors[-2] > 1e-9, n


def test_single_precision_is_kept():
    t = bg.topology("base", n=100)
    errors = bg.consensus_error(t, gaussian(100, dtype=np.float32), t.period)
    assert 1e-20 < errors[-1] < 1e-12


@pytest.mark.parametrize(
    ("x0", "complaint"),
    [
        (np.zeros(4), r"x0='array of shape \(4,\)': must have shape"),
        (np.zeros((5, 2, 2)), "must have shape"),
        (np.array(["a"] * 5), "must be float32 or float64"),
        (np.array([0, 1, 2, 3, np.nan]), "must be finite"),
        (np.array([0, 1, 2, 3, np.inf]), "must be finite"),
    ],
)
def test_bad_start(x0, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        bg.consensus_error(bg.topology("ring", n=5), x0, 3)


def test_bad_steps():
    with pytest.raises(bg.InvalidArgument, match="steps=-1: must be an integer ≥ 0"):
        bg.consensus_error(bg.topology("ring", n=5), np.zeros(5), -1)
