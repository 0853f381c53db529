"""Renamed nodes: the same rounds among others, periods still exact, nobody keeps its neighbors."""

from __future__ import annotations

import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import basegraph as bg

SPECS = ("base:k=1", "base:k=3", "exponential", "ring", "torus", "short:k=2", "d-equistatic")


def matrix(t, step):
    return t.round(step).matrix().toarray()


@pytest.mark.parametrize("every", [None, 1, 3, 7])
@pytest.mark.parametrize("spec", SPECS)
def test_it_is_the_round_with_other_names(spec, every):
    """P W Pᵀ, where P is found again from the first round of its turn."""
    t = bg.topology(spec, n=11)
    renamed = bg.shuffled(t, every, seed=5)
    every = every or t.period
    assert (renamed.period, renamed.max_degree, renamed.symmetric) == (
        None, t.max_degree, t.symmetric
    )  # fmt: skip
    for step in (0, 1, 2, 8, 10**12):
        names, _ = renamed._names(step)
        assert sorted(names) == list(range(11))
        permuted = np.zeros((11, 11))
        permuted[np.ix_(names, names)] = matrix(t, step)
        assert np.array_equal(matrix(renamed, step), permuted)
        assert np.array_equal(renamed._names(step // every * every)[0], names)


@pytest.mark.parametrize("spec", SPECS)
def test_one_node_is_answered_as_the_round_is(spec):
    t = bg.shuffled(bg.topology(spec, n=13), 2)
    for step in (0, 5, 6, 77):
        r = t.round(step)
        for i in range(13):
            assert t.neighbors(i, step) == r.neighbors(i)
            assert t.listeners(i, step) == r.listeners(i)


def test_every_period_is_exact():
    """In exact fractions, for periods after one another and any multiple of the period."""
    for spec, n in (("base:k=1", 5), ("base:k=2", 7), ("short:k=1", 9)):
        t = bg.topology(spec, n=n)
        for turns in (1, 2):
            renamed = bg.shuffled(t, turns * t.period)
            for begin in range(0, 4 * t.period, t.period):
                product = np.array([[Fraction(i == j) for j in range(n)] for i in range(n)])
                for step in range(begin, begin + t.period):
                    w = np.full((n, n), Fraction(0))
                    for i in range(n):
                        heard = renamed.neighbors(i, step)
                        w[i, list(heard)] = list(heard.values())
                        w[i, i] = 1 - sum(heard.values())
                    product = w @ product
                assert (product == Fraction(1, n)).all()


def test_neighbors_are_all_others_alike():
    t = bg.shuffled(bg.topology("ring", n=6))
    met = Counter(j for step in range(3000) for j in t.neighbors(2, step))
    assert met.keys() == {0, 1, 3, 4, 5}
    assert max(met.values()) < 1.15 * min(met.values())


def test_a_pure_function_of_seed_and_step():
    t = bg.topology("base:k=1", n=10)
    one, other = bg.shuffled(t, seed=3), bg.shuffled(t, seed=3)
    ahead = [one.round(step) for step in (90, 4, 17)]
    assert ahead == [other.round(step) for step in (90, 4, 17)]
    assert one == other
    assert one != bg.shuffled(t, seed=4)
    assert pickle.loads(pickle.dumps(one)).round(17) == one.round(17)


def test_the_catalogue_knows_it():
    t = bg.topology("base:k=2,shuffled=4,shuffle_seed=7", n=10)
    same = bg.shuffled(bg.topology("base", n=10, k=2), 4, 7)
    assert t == same
    assert t.spec == same.spec == "base:k=2,shuffled=4,shuffle_seed=7"
    assert (t.name, repr(t)) == ("base", f"<{t.spec}, 10 nodes, random rounds, degree 2>")
    home = bg.topology("base", n=5, home=True, shuffled=5)
    assert home == bg.shuffled(bg.stay_home(bg.topology("base", n=5)), 5)
    assert bg.topology("ring:shuffled=1", n=9).spec == "ring:shuffled=1"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: bg.topology("ring:shuffled=0", n=5), "shuffled=0: must be an integer ≥ 1"),
        (lambda: bg.topology("ring:shuffled=true", n=5), "shuffled=True: must be an integer ≥ 1"),
        (lambda: bg.topology("ring:shuffle_seed=1", n=5), "shuffle_seed=1: needs shuffled"),
        (lambda: bg.shuffled(bg.topology("one-peer-d-equidyn", n=5)), "must repeat"),
        (lambda: bg.shuffled(bg.topology("ceca", n=5)), "only rounds of one vector"),
        (lambda: bg.shuffled(bg.topology("ring", n=5), seed=-1), "seed=-1: must be"),
        (lambda: bg.shuffled(bg.topology("ring", n=5), 0), "every=0: must be an integer ≥ 1"),
    ],
)
def test_refused(make, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        make()


def test_it_trains_as_any_topology(tmp_path):
    config = bg.RunConfig(topology="base:k=1,shuffled=5", nodes=5, epochs=2, precision="float32")
    rows = bg.train(config, tmp_path / "whole")
    again = bg.train(
        bg.RunConfig(nodes=5, epochs=2, precision="float32"), tmp_path / "own",
        topology=bg.shuffled(bg.topology("base:k=1", n=5)),
    )  # fmt: skip
    assert rows[-1]["test_accuracy"] == again[-1]["test_accuracy"]
    plain = bg.train(bg.RunConfig(nodes=5, epochs=2, precision="float32"), tmp_path / "plain")
    assert rows[-1]["bytes_per_node"] == plain[-1]["bytes_per_node"]
    assert rows[-1]["train_loss"] != plain[-1]["train_loss"]
