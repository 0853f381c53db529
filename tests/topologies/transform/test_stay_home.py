"""Renaming: still exact, no pair weight above one half."""

from __future__ import annotations

from fractions import Fraction

import pytest

import basegraph as bg

HALF = Fraction(1, 2)


@pytest.mark.parametrize("name", ["base", "simple-base", "euclid", "short"])
def test_every_sequence_of_pairs_can_stay_at_home(name):
    renamed = 0
    for n in range(2, 130):
        t = bg.topology(name, n=n)
        home = bg.stay_home(t)
        certificate = bg.verify(home)
        assert certificate.method == "exact"
        assert (certificate.period, certificate.max_degree) == (t.period, 1)
        assert bg.pair_weights(home).largest <= HALF
        renamed += bg.pair_weights(t).largest > HALF
    assert renamed > 60


def test_what_stays_at_home_is_left_alone():
    t = bg.topology("one-peer-hypercube", n=16)
    assert list(bg.stay_home(t)) == list(t)


def test_golden_five_nodes():
    """Node 4 keeps 4/5 of its value; from then on it stands for node 0, and node 0 for it."""
    home = bg.stay_home(bg.topology("base", n=5))
    assert home[2].neighbors(4) == {0: Fraction(1, 5)}
    assert home[3] == bg.Round.from_edges(5, {(4, 1): HALF, (2, 3): HALF})
    assert home[4] == bg.Round.from_edges(5, {(4, 2): HALF, (1, 3): HALF})


def test_a_swap_becomes_a_renaming():
    swap = bg.Round.from_edges(3, {(0, 1): Fraction(1)})
    pair = bg.Round.from_edges(3, {(1, 2): HALF})
    first, second = bg.stay_home(bg.Sequence([swap, pair]))
    assert first.degree == 0
    assert second == bg.Round.from_edges(3, {(0, 2): HALF})


@pytest.mark.parametrize("spec", ["base:k=2", "ring", "one-peer-exponential", "one-peer-u-equidyn"])
def test_refuses_what_is_not_made_of_pairs(spec):
    with pytest.raises(bg.InvalidArgument, match="topology="):
        bg.stay_home(bg.topology(spec, n=9))


@pytest.mark.parametrize("spec", ["base:k=1,home=true", "euclid:home=true", "steady:home=true"])
def test_the_catalogue_has_it_as_an_option(spec):
    t = bg.topology(spec, n=25)
    assert t.spec == spec
    plain = bg.topology(spec.partition(":")[0], n=25)
    assert list(t) == list(bg.stay_home(plain))
    assert list(bg.topology(plain.spec, n=25, home=True)) == list(t)


@pytest.mark.parametrize("spec", ["base:home=2", "ring:home=true", "base:k=2,home=true"])
def test_the_option_is_refused_in_one_line(spec):
    with pytest.raises(bg.InvalidArgument, match=r"home=|topology="):
        bg.topology(spec, n=9)
