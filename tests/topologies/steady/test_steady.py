"""Steady: exact whatever is chosen, and as calm as its table promises."""

from __future__ import annotations

from math import gcd

import numpy as np
import pytest

import basegraph as bg
from basegraph.topologies.short._euclid import by_mirrors, chain, euclid_length
from basegraph.topologies.steady._free_mirrors import MirrorParameters, free_mirrors, mirror_table
from basegraph.topologies.steady._solved_mix import (
    AIM,
    MixParameters,
    middle_weights,
    mix_table,
    solved_mix,
)


@pytest.mark.parametrize(
    "sizes", [range(1, 151), pytest.param(range(151, 301), marks=pytest.mark.slow)]
)
def test_proved_for_every_n(sizes):
    for n in sizes:
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
            extras = tuple((int(s), 3, 5) for s in rng.integers(0, places, rng.integers(0, 3)))
            backwards = bool(rng.integers(0, 2))
            choices = MirrorParameters(tuple(splits), tuple(lifts), renamed, backwards, extras)
            t = by_mirrors("any choices", n, free_mirrors(places, choices))
            assert bg.verify(t).period == total + len(extras), choices


def _coprime(factor):
    return [v for v in range(1, factor) if gcd(v, factor) == 1]


def test_the_table_is_calmer_than_base_and_hardly_longer_than_euclid():
    assert len(mirror_table()) > 45
    assert max(mirror_table()) <= 64
    for n in mirror_table():
        t = bg.topology("steady", n=n)
        assert t.period <= euclid_length(n) + 2
        base = bg.training_disagreement(bg.topology("base", n=n), 0.05)
        assert bg.training_disagreement(t, 0.05) < base, n


def test_middles_are_calmer_than_mirrors():
    """Anything that is not would better be left out."""
    for n, middle in mix_table().items():
        places = n if n % 2 else n // 2
        mirrors = by_mirrors("mirrors", n, free_mirrors(places, mirror_table()[n]))
        mix = solved_mix(middle, "mix")
        calm, known = (bg.training_disagreement(t, 0.05) for t in (mix, mirrors))
        assert calm < known, n
        assert all(0 < w < 1 for w in middle_weights(middle).values())


def test_any_middle_that_can_be_solved_is_exact():
    """Nodes of 33 that change places or partners at random; the rest is refused."""
    rng = np.random.Generator(np.random.Philox(key=3))
    rows, columns, place, mate = mix_table()[33]
    solved = refused = 0
    for _ in range(60):
        swap = np.arange(33)
        i, j = rng.choice(33, size=2, replace=False)
        swap[[i, j]] = j, i
        elsewhere = np.array(place)[swap] if rng.integers(0, 2) else np.array(place)
        others = swap[np.array(mate)[swap]] if (elsewhere == place).all() else np.array(mate)
        middle = MixParameters(rows, columns, tuple(elsewhere.tolist()), tuple(others.tolist()))
        try:
            t = solved_mix(middle, "any middle")
        except bg.InvalidArgument as refusal:
            assert refusal.argument == "mate"
            refused += 1
        else:
            assert bg.verify(t).max_degree == 1
            solved += 1
    assert solved > 5
    assert refused > 5


def test_the_weights_of_a_middle_are_the_nearest_to_their_aim():
    """Any other solution differs by what moves nothing, and that is orthogonal to w - AIM."""
    middle = mix_table()[33]
    weights = middle_weights(middle)
    row, column = (np.repeat(np.arange(len(s)), s) for s in (middle.rows, middle.columns))
    column = column[list(middle.place)]
    moves = np.zeros((len(middle.rows), len(middle.columns), len(weights)))
    for e, (i, j) in enumerate(weights):
        for a, b, sign in ((i, i, -1), (j, j, -1), (i, j, 1), (j, i, 1)):
            moves[row[a], column[b], e] += sign
    moves = moves.reshape(-1, len(weights))
    away = np.array([float(w - AIM) for w in weights.values()])
    nothing = np.eye(len(weights)) - np.linalg.pinv(moves) @ moves
    assert np.abs(nothing @ away).max() < 1e-9


@pytest.mark.parametrize(
    ("n", "most"),
    [
        (10, 0.1285),
        (12, 0.1375),
        (20, 0.1635),
        (22, 0.1745),
        (24, 0.1655),
        (25, 0.198),
        (30, 0.1815),
        (33, 0.2035),
    ],
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
