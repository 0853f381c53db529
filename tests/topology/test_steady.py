"""Steady: exact whatever is chosen, and as calm as its table promises."""

from __future__ import annotations

from math import gcd

import numpy as np
import pytest

import basegraph as bg
from basegraph.topology.choices import Choices, free_mirrors
from basegraph.topology.euclid import by_mirrors, chain, euclid_length
from basegraph.topology.steady_table import CHOICES


def test_proved_for_every_n():
    for n in range(1, 301):
        certificate = bg.verify(bg.topology("steady", n=n))
        assert certificate.method == "exact"
        assert certificate.max_degree <= 1


def test_any_choices_are_exact():
    rng = np.random.Generator(np.random.Philox(key=0))
    for n in (7, 9, 18, 24, 25, 30, 45, 60):
        places = n if n % 2 else n // 2
        for _ in range(10):
            splits, rest = [], places
            while rest > 1:
                factor = int(rng.choice([f for f in range(2, rest + 1) if rest % f == 0]))
                splits.append((factor, int(rng.choice(_coprime(factor)))))
                rest //= factor
            lifts, done = [], 1
            for factor, v in splits:
                lifts += rng.integers(0, done, size=len(chain(factor, v)[0])).tolist()
                done *= factor
            total = len(lifts) + 1
            renamed = tuple(np.flatnonzero(rng.integers(0, 2, size=total)).tolist())
            extra = (int(rng.integers(0, places)), 3, 5) if rng.integers(0, 2) else None
            choices = Choices(tuple(splits), tuple(lifts), renamed, bool(rng.integers(0, 2)), extra)
            t = by_mirrors("any choices", n, free_mirrors(places, choices))
            assert bg.verify(t).period == total + (extra is not None), choices


def _coprime(factor):
    return [v for v in range(1, factor) if gcd(v, factor) == 1]


def test_the_table_is_calmer_than_base_and_hardly_longer_than_euclid():
    assert len(CHOICES) > 45
    assert max(CHOICES) <= 64
    for n in CHOICES:
        t = bg.topology("steady", n=n)
        assert t.period <= euclid_length(n) + 1
        base = bg.training_disagreement(bg.topology("base", n=n), 0.05)
        assert bg.training_disagreement(t, 0.05) < base, n


@pytest.mark.parametrize(
    ("n", "most"),
    [(10, 0.1285), (12, 0.1375), (20, 0.1635), (22, 0.1745), (30, 0.1815)],
)
def test_known_low_values(n, most):
    assert bg.training_disagreement(bg.topology("steady", n=n), 0.05) < most


@pytest.mark.parametrize("n", [72, 80, 88, 96, 101, 104, 110, 124, 128, 200])
def test_beyond_the_table_it_is_the_calmer_of_base_and_euclid(n):
    base, euclid, steady = (
        bg.training_disagreement(bg.topology(name, n=n), 0.05)
        for name in ("base", "euclid", "steady")
    )
    assert steady == min(base, euclid)
