"""Euclid: proved for every n, as short as its definition says, in closed form."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

import pytest

import basegraph as bg
from basegraph.topologies.short._euclid import best_split, euclid_length, factors, mirrors
from support.assertions import assert_nodes_agree_with_rounds


def partial_quotients(a, b):
    return a // b + partial_quotients(b, a % b) if b else 0


def shortest_chain(f):
    """L'(f), straight from the definition."""
    return min(partial_quotients(f, v) for v in range(1, f) if gcd(f, v) == 1) - 1


def fewest_mirrors(n, known):
    if n == 1:
        return 0
    if n not in known:
        splits = [
            fewest_mirrors(d, known) + fewest_mirrors(n // d, known)
            for d in range(2, n)
            if n % d == 0
        ]
        known[n] = min([shortest_chain(n), *splits])
    return known[n]


def test_proved_for_every_n():
    for n in range(1, 301):
        t = bg.topology("euclid", n=n)
        certificate = bg.verify(t)
        assert certificate.method == "exact"
        assert certificate.max_degree == t.max_degree == min(1, n - 1)
        assert t.period >= bg.shortest_possible(n, 1)


def test_length_is_that_of_the_best_factorisation_and_splits():
    known = {}
    for n in range(2, 301):
        expected = 1 + fewest_mirrors(n if n % 2 else n // 2, known)
        assert bg.topology("euclid", n=n).period == euclid_length(n) == expected, n


@pytest.mark.parametrize("n", [6, 9, 10, 12, 18, 20, 24, 36, 40, 48, 72, 80])
def test_meets_the_lower_bound(n):
    assert bg.topology("euclid", n=n).period == bg.shortest_possible(n, 1)


def test_golden_mirrors():
    half, third = Fraction(1, 2), Fraction(1, 3)
    assert mirrors(1) == ((0, half),)
    assert mirrors(2) == ((0, half), (1, half))
    assert mirrors(3) == ((0, half), (1, third), (2, half))
    # n = 6: right nodes 0, 1, 2, left nodes 3, 4, 5.
    assert [bg.topology("euclid", n=6).neighbors(1, step) for step in range(3)] == [
        {4: half},
        {5: third},
        {3: half},
    ]


def test_one_node_agrees_with_the_round():
    for n in (1, 2, 3, 25, 26, 61, 124, 150, 243):
        t = bg.topology("euclid", n=n)
        assert_nodes_agree_with_rounds(t, t.period)


def test_peers_are_mutual_without_building_a_round():
    for n in (10**12, 10**12 + 1, 2**61 - 1):
        t = bg.topology("euclid", n=n)
        for step in range(t.period):
            heard = t.neighbors(123_456_789, step)
            for peer, weight in heard.items():
                assert t.neighbors(peer, step) == {123_456_789: weight}


def test_the_factors_multiply_to_the_circle():
    for places in [*range(1, 500), 10**6, 999_983, 2**40, 3 * (2**31 - 1)]:
        product = 1
        for f in factors(places):
            product *= f
            assert gcd(f, best_split(f)[1]) == 1
        assert product == places


@pytest.mark.parametrize("step", range(4))
def test_one_wrong_weight_is_caught(step):
    rounds = list(bg.topology("euclid", n=11))
    r = rounds[step]
    arcs = dict(
        zip(
            zip(r.receivers.tolist(), r.senders.tolist(), strict=True),
            map(Fraction, r.numerators.tolist(), r.denominators.tolist()),
            strict=True,
        )
    )
    pair = min(arcs)
    arcs[pair] = arcs[pair[::-1]] = arcs[pair] + Fraction(1, 1000)
    rounds[step] = bg.Round.from_arcs(11, arcs)
    with pytest.raises(bg.NotFiniteTime):
        bg.verify(rounds)
