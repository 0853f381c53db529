from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import basegraph as bg
from basegraph import Round, Sequence
from basegraph.topologies.core.closed_form import ClosedFormSequence
from basegraph.topologies.core.random import generator
from basegraph.topologies.verify.modular import (
    PRIMES_BETWEEN_2_30_AND_2_31,
    is_prime,
    random_primes,
)
from basegraph.topologies.verify.rounds import check_rounds
from support.assertions import is_finite_time, is_valid

SEQUENCES = [("base", 5, 1), ("base", 6, 1), ("simple-base", 7, 2), ("base", 10, 2), ("base", 9, 3)]


class Claimed(Sequence):
    """Corrupted rounds under the claims of the sound topology."""

    def __init__(self, sound: Sequence, rounds: list[Round]) -> None:
        super().__init__(rounds, "corrupted")
        self.max_degree, self.symmetric = sound.max_degree, sound.symmetric


def with_round(t, index, r):
    rounds = list(t)
    rounds[index] = r
    return Claimed(t, rounds)


def without(r: Round, arcs) -> Round:
    keep = np.setdiff1d(np.arange(len(r.receivers)), arcs)
    return Round(r.n, r.receivers[keep], r.senders[keep], r.numerators[keep], r.denominators[keep])


def one_arc_corruptions(r: Round):
    """Every way to change one weight, drop one arc or bend one arc to another sender."""
    for arc in range(len(r.receivers)):
        for field in ("numerators", "denominators"):
            for change in (-1, 1, 7):
                values = getattr(r, field).copy()
                values[arc] += change
                yield replace(r, **{field: values})
        yield without(r, [arc])
        senders = r.senders.copy()
        senders[arc] = (senders[arc] + 1) % r.n
        yield replace(r, senders=senders)


@pytest.mark.parametrize(("name", "n", "k"), SEQUENCES)
@pytest.mark.parametrize("method", ["exact", "freivalds"])
def test_every_corruption_of_one_arc_is_found(name, n, k, method):
    t = bg.topology(name, n=n, k=k)
    tried = 0
    for index, r in enumerate(t):
        for corrupted in one_arc_corruptions(r):
            with pytest.raises((bg.InvalidRound, bg.NotFiniteTime)):
                bg.verify(with_round(t, index, corrupted), method=method)
            tried += 1
    assert tried >= 8 * 2 * t.period


@pytest.mark.parametrize(("name", "n", "k"), SEQUENCES)
def test_edge_corruptions_are_found_exactly_when_they_do_harm(name, n, k):
    """Both arcs of an edge changed alike stay doubly stochastic: only the product can tell, and a
    redundant edge may change without harm. The verdict must be the truth either way."""
    t = bg.topology(name, n=n, k=k)
    harmless = 0
    for index, r in enumerate(t):
        for arc, (i, j) in enumerate(zip(r.receivers, r.senders, strict=True)):
            if i > j:
                continue
            back = int(np.flatnonzero((r.receivers == j) & (r.senders == i))[0])
            numerators, denominators = r.numerators.copy(), r.denominators.copy()
            numerators[[arc, back]], denominators[[arc, back]] = 1, 17
            changed = replace(r, numerators=numerators, denominators=denominators)
            for corrupted in (without(r, [arc, back]), changed):
                suspect = with_round(t, index, corrupted)
                if is_finite_time(list(suspect)):
                    bg.verify(suspect)
                    harmless += 1
                else:
                    for method in ("exact", "freivalds"):
                        with pytest.raises(bg.NotFiniteTime):
                            bg.verify(suspect, method=method)
    lines = {int(o) for r in t for o in r.origins}
    redundant = {bg.Origin.LINE_20, bg.Origin.LINE_27} & lines
    assert harmless or not redundant


@settings(max_examples=60)
@given(st.data())
def test_the_verdict_on_any_round_is_the_truth(data):
    """Random arcs, weights and claims against the definitions, checked entry by entry."""
    n = data.draw(st.integers(1, 5))
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    arcs = data.draw(st.lists(st.sampled_from(pairs), unique=True) if pairs else st.just([]))
    shared = data.draw(st.booleans())
    weight = st.sampled_from([Fraction(a, b) for b in (2, 3, 4) for a in range(b + 1)])
    drawn = {arc: data.draw(weight) for arc in arcs}
    if shared:
        drawn = {arc: drawn[arc] for arc in arcs} | {(j, i): drawn[i, j] for i, j in arcs}
    drawn = {arc: w for arc, w in drawn.items() if w}
    t = Sequence([Round.from_arcs(n, drawn)])
    t.symmetric = data.draw(st.booleans())
    t.max_degree = data.draw(st.integers(0, n))
    sound = is_valid(t[0], symmetric=t.symmetric, degree=t.max_degree)
    try:
        check_rounds(t)
    except bg.InvalidRound:
        assert not sound
    else:
        assert sound


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"numerators": [0, 1]}, r"round 0: arc 0 ← 1 of weight 0/2 is not positive"),
        ({"numerators": [-1, 1]}, r"arc 0 ← 1 of weight -1/2 is not positive"),
        ({"denominators": [0, 2]}, r"denominator below 1"),
        ({"denominators": [1, 1], "numerators": [2, 2]}, r"node 0 hears weights that sum to 2"),
        ({"numerators": [2, 1]}, r"not doubly stochastic: column 0 sums to 1/2"),
        ({"senders": [0, 0]}, r"arc 0 ← 0 of weight 1/2 is a self loop"),
        ({"receivers": [0, 0], "senders": [1, 1]}, r"arc 0 ← 1 of weight 1/2 occurs twice"),
    ],
)
def test_complaints_name_round_nodes_and_values(change, message):
    pair = {"receivers": [0, 1], "senders": [1, 0], "numerators": [1, 1], "denominators": [2, 2]}
    arrays = {name: np.array(values) for name, values in {**pair, **change}.items()}
    t = bg.topology("hyper-hypercube", n=2)
    bad = Sequence([t[0]])
    bad._rounds = [Round(2, **arrays)]
    with pytest.raises(bg.InvalidRound, match=message):
        bg.verify(bad)


def test_claims_are_checked():
    rounds = bg.topology("one-peer-exponential", n=4)
    directed = ClosedFormSequence(
        "directed", 4, rounds.period, rounds.segments, max_degree=1, symmetric=True
    )
    with pytest.raises(bg.InvalidRound, match="arc 0 ← 3 of weight 1/2 has no counterpart"):
        bg.verify(directed)
    segments = bg.topology("complete", n=4).segments
    crowded = ClosedFormSequence("crowded", 4, 1, segments, max_degree=2, symmetric=True)
    with pytest.raises(bg.InvalidRound, match="node 0 talks to 3 neighbors, more than 2"):
        bg.verify(crowded)


def test_a_construction_must_keep_its_promise():
    t = Sequence(bg.topology("base", n=25, k=4), promised_degree=3)
    with pytest.raises(bg.InvalidRound, match="node 0 talks to 4 neighbors, more than 3"):
        bg.verify(t)


def test_fooling_a_known_seed_does_not_fool_a_fresh_one():
    """Weights 1/(p+2) are 1/2 modulo p; the primes of a seed that is known can be prepared for."""
    primes = list(islice(random_primes(generator(0)), 3))
    rounds = [Round.from_edges(2, {(0, 1): Fraction(1, p + 2)}) for p in primes]
    assert bg.verify(rounds, method="freivalds", seed=0).seed == 0
    for _ in range(3):
        with pytest.raises(bg.NotFiniteTime):
            bg.verify(rounds, method="freivalds")


def test_dense_rounds_are_proved_in_bounded_memory():
    assert bg.verify(bg.topology("complete", n=400), method="exact").method == "exact"
    assert bg.verify(bg.topology("base", n=401, k=100), method="exact").max_degree <= 100


@pytest.mark.parametrize("what", [None, "base", [1], [], 5])
def test_what_is_no_topology_is_refused(what):
    with pytest.raises(bg.InvalidArgument, match="must be"):
        bg.verify(what)


def test_what_does_not_reach_consensus_is_named():
    with pytest.raises(bg.NotFiniteTime, match=r"node 0 holds 1/3 of node 0's value instead of"):
        bg.verify(bg.topology("ring", n=7))
    with pytest.raises(bg.NotFiniteTime, match="does not hold the average"):
        bg.verify(bg.topology("one-peer-exponential", n=6), method="freivalds")
    with pytest.raises(bg.NotFiniteTime, match="has no period"):
        bg.verify(bg.topology("one-peer-u-equidyn", n=6))


def test_a_missing_round_is_found():
    for n in (5, 12, 25):
        rounds = list(bg.topology("base", n=n))
        for left_out in range(len(rounds)):
            rest = rounds[:left_out] + rounds[left_out + 1 :]
            if is_finite_time(rest):
                bg.verify(rest)
            else:
                with pytest.raises(bg.NotFiniteTime):
                    bg.verify(rest)


def test_certificates_say_how():
    exact = bg.verify(bg.topology("base", n=100))
    assert (exact.method, exact.error_probability, exact.trials) == ("exact", 0, 0)
    checked = bg.verify(bg.topology("base", n=100_000), seed=5)
    assert checked.method == "freivalds"
    assert 0 < checked.error_probability <= Fraction(1, 2**60)
    assert "seed 5, error ≤ 2^-" in str(checked)
    with pytest.raises(bg.InvalidArgument, match="method='fast': must be 'auto', 'exact' or"):
        bg.verify(bg.topology("ring", n=3), method="fast")


def test_primality():
    small = [p for p in range(2, 20_000) if all(p % d for d in range(2, int(p**0.5) + 1))]
    assert [p for p in range(20_000) if is_prime(p)] == small
    assert all(is_prime(p) for p in (2**31 - 1, 2**30 + 3))
    assert not any(is_prime(p) for p in (2**30 + 1, 46337 * 46337, 2_147_483_645))


def test_the_number_of_primes_in_the_error_bound():
    """Sieved: all primes between 2^30 and 2^31, a segment at a time."""
    divisors = [p for p in range(3, 46_342, 2) if is_prime(p)]
    found, length = 0, 2**23
    for low in range(2**30 + 1, 2**31, 2 * length):  # the odd numbers low, low + 2, ...
        prime = np.ones(length, dtype=bool)
        for p in divisors:
            first = -low % p
            prime[(first + p * (first % 2)) // 2 :: p] = False
        found += int(prime.sum())
    assert found == PRIMES_BETWEEN_2_30_AND_2_31
