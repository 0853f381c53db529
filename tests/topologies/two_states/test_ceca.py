"""CECA: the exact average in ceil(log2 n) rounds for every n, with two vectors per node."""

from __future__ import annotations

import pickle
from fractions import Fraction

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import basegraph as bg
from basegraph.topologies.transform import Product, SideBySide
from basegraph.topologies.two_states import Heard, TwoStateRound, TwoStateSequence
from support.assertions import assert_nodes_agree_with_rounds, product_of

HALF = Fraction(1, 2)
NEAR_POWERS = sorted({2**p + d for p in range(1, 12) for d in (-1, 0, 1)})


def maps(t):
    """The rounds as rounds on 2n slots: x_0.., then y_0.. ."""
    return [r.slots for r in t]


@pytest.mark.parametrize("n", range(1, 33))
def test_x_ends_as_the_average_whatever_y_was(n):
    """From nothing but the arcs, with fractions: the upper half of the product is [J/n, 0]."""
    upper = product_of(maps(bg.topology("ceca", n=n)))[:n]
    assert upper == [[Fraction(1, n)] * n + [Fraction(0)] * n] * n


@pytest.mark.parametrize("n", [*range(1, 65), *[n for n in NEAR_POWERS if 64 < n < 1100]])
def test_is_proved_and_as_short_as_can_be(n):
    t = bg.topology("ceca", n=n)
    certificate = bg.verify(t)
    assert certificate.method == "exact"
    assert certificate.vectors_per_node == 2
    assert "two vectors per node" in str(certificate)
    assert certificate.period == t.period == len(t) == max(1, (n - 1).bit_length())
    assert certificate.arcs == (t.period * n if n > 1 else 0)
    assert certificate.max_degree == t.max_degree == min(1, n - 1)


@pytest.mark.slow
@pytest.mark.parametrize("n", [*range(65, 301), *[n for n in NEAR_POWERS if n > 1100]])
def test_is_proved_for_more_nodes(n):
    assert bg.verify(bg.topology("ceca", n=n)).period == (n - 1).bit_length()


@pytest.mark.parametrize("n", [5, 64, 100_003])
def test_is_proved_modulo_primes(n):
    certificate = bg.verify(bg.topology("ceca", n=n), method="freivalds", seed=1)
    assert (certificate.method, certificate.vectors_per_node) == ("freivalds", 2)
    assert certificate.error_probability < Fraction(1, 2**60)


@given(n=st.integers(2, 2**61), data=st.data())
def test_windows_never_overlap(n, data):
    """x covers the node and the m before it, y these m: as intervals, for any n."""
    t = bg.topology("ceca", n=n)
    i = data.draw(st.integers(0, n - 1))
    m = 0
    for step in range(t.period):
        ((sender, heard),) = t.neighbors(i, step).items()
        back = (i - sender) % n
        first, last = (back, back + m) if heard.vector == "x" else (back + 1, back + m)
        assert first == m + 1  # where the own window ends
        size = last - first + 1
        assert heard.x == Fraction(size, m + 1 + size)
        assert heard.y == Fraction(size, m + size)
        assert t.listeners(sender, step) == (i,)
        m = last
    assert m == n - 1


@pytest.mark.parametrize("n", [1, 2, 3, 6, 25, 33])
def test_one_node_agrees_with_the_round(n):
    t = bg.topology("ceca", n=n)
    assert_nodes_agree_with_rounds(t, t.period)
    for step in range(t.period):
        r = t.round(step)
        for i in range(n):
            assert t.listeners(i, step) == r.listeners(i)
        if n > 1:  # one message out and one in
            assert sorted(r.senders) == sorted(r.receivers) == list(range(n))


def test_a_node_among_very_many_is_answered_without_building_a_round():
    t = bg.topology("ceca", n=10**12)
    with pytest.raises(bg.InvalidArgument, match="more than this machine's memory"):
        t.round(0)
    assert t.period == 40
    assert bg.topology("ceca", n=2**29).period == 29  # where floating-point logarithms go wrong
    assert bg.topology("ceca", n=2**29 + 1).period == 30


def test_known_values():
    t = bg.topology("ceca", n=25)  # 24 is 11000
    assert (t.period, [t.sends(step) for step in range(5)]) == (5, list("xxyyy"))
    assert t.neighbors(0, 0) == {24: Heard("x", HALF, Fraction(1))}
    assert t.neighbors(0, 1) == {23: Heard("x", HALF, Fraction(2, 3))}
    assert t.neighbors(0, 2) == {22: Heard("y", Fraction(3, 7), HALF)}
    assert t.neighbors(0, 5) == t.neighbors(0, 0)
    assert bg.topology("ceca", n=10**6).period == 20


def test_time_is_an_argument():
    t = bg.topology("ceca", n=7)
    late = t.round(10**9)
    assert late == t.round(10**9) == t.round(10**9 % t.period)
    assert list(t) == [t[0], t[1], t[-1]]
    assert t == bg.topology("ceca", n=7) == TwoStateSequence(t) == pickle.loads(pickle.dumps(t))
    assert t != bg.topology("ceca", n=8)
    assert hash(t) == hash(TwoStateSequence(t))
    with pytest.raises(IndexError):
        t[3]
    for ask in (lambda: t.round(-1), lambda: t.neighbors(7, 0), lambda: t.listeners(-1, 0)):
        with pytest.raises(bg.InvalidArgument):
            ask()


def test_gossip_shows_x():
    x0 = np.random.default_rng(0).standard_normal((25, 3))
    t = bg.topology("ceca", n=25)
    errors = bg.consensus_error(t, x0, steps=12)
    assert len(errors) == 13
    assert (errors[:5] > 1e-3).all()
    assert (errors[5:] < 1e-28).all()
    states = bg.analysis.gossip(t, x0.astype(np.float32))
    assert next(states).shape == (25, 3)
    assert next(states).dtype == np.float32
    assert bg.analysis.reaches_average(t)
    assert bg.bytes_per_round(t, parameters=10).period == 5 * 40


def test_a_sequence_that_is_not_exact_is_told_so():
    t = bg.topology("ceca", n=6)
    for method in ("exact", "freivalds"):
        with pytest.raises(bg.NotFiniteTime, match="x of node 0"):
            bg.verify([t[0], t[2], t[1]], method=method)
    for method in ("exact", "freivalds"):  # x of node 1 keeps some of y
        with pytest.raises(bg.NotFiniteTime):
            bg.verify(
                [TwoStateRound.from_messages(2, {(1, 0): Heard("y", HALF, HALF)})], method=method
            )
    heavy = Heard("x", Fraction(1), Fraction(1))
    many = TwoStateRound.from_messages(3, {(0, 1): heavy, (0, 2): heavy})
    with pytest.raises(bg.InvalidRound, match="weights that sum to 2"):
        bg.verify([many])


def test_what_two_vectors_cannot_do_is_refused_with_what_can():
    t = bg.topology("ceca", n=6)
    one = bg.topology("base", n=6)
    for ask in (
        lambda: bg.topology("ceca:home=true", n=6),
        lambda: bg.stay_home(t),
        lambda: Product(t, one, "product"),
        lambda: SideBySide([(t, 2)], redundant=True),
        lambda: bg.diagnose(t),
        lambda: bg.pair_weights(t),
        lambda: bg.training_disagreement(t, 0.05),
        lambda: bg.training_disagreement(t, 0.05, samples=2),
        lambda: bg.noise_disagreement(t, samples=2),
        lambda: bg.consensus_rate(t),
        lambda: bg.consensus_delay(t),
    ):
        with pytest.raises(bg.InvalidArgument, match="='ceca': keeps two vectors per node: "):
            ask()
    with pytest.raises(bg.InvalidArgument, match=r"messages\(\)\.to_networkx\(\)"):
        t[0].to_networkx()
    assert isinstance(t[0].messages().to_networkx(), networkx.DiGraph)


def test_bad_rounds_are_refused():
    with pytest.raises(bg.InvalidArgument, match="vector='z'"):
        TwoStateRound.from_messages(2, {(0, 1): Heard("z", HALF, HALF)})
    with pytest.raises(bg.InvalidArgument, match=r"slots=.*6 slots"):
        TwoStateRound(3, bg.topology("ring", n=3)[0])
    with pytest.raises(bg.InvalidArgument, match="two-state rounds"):
        TwoStateSequence(bg.topology("ring", n=4))
    with pytest.raises(bg.InvalidArgument, match="same number of nodes"):
        TwoStateSequence([bg.topology("ceca", n=n)[0] for n in (2, 3)])


def test_is_drawn_with_what_is_sent():
    t = bg.topology("ceca", n=7)
    figure = t.draw()
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[2] == "round 2: y is sent, weight 3/7 in x, 1/2 in y"
    assert "two vectors per node" in figure.get_suptitle()
    assert t._repr_html_().count("<svg") == 3
