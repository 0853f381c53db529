"""One set of properties over the whole catalogue: a new topology joins by its catalogue line."""

from __future__ import annotations

import pickle

import pytest

import basegraph as bg
from basegraph.topologies.catalog import TWO_STATE_NAMES
from support.assertions import (
    assert_arcs_well_formed,
    assert_degree_is_reached,
    assert_listeners_agree_with_rounds,
    assert_nodes_agree_with_rounds,
    assert_time_is_an_argument,
    assert_valid_rounds,
    is_finite_time,
)

ONE_STATE = sorted(set(bg.TOPOLOGIES) - set(TWO_STATE_NAMES))
"""tests/topologies/two_states has the properties of the others, whose rounds are 2n × 2n."""
SIZES = [1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 25]


def variants(name):
    """Every size this topology takes, with a few values of its numeric options."""
    options = bg.TOPOLOGIES[name].options
    knob = next((o for o in ("k", "degree") if o in options), None)
    built = []
    for n in SIZES:
        for value in (1, 2, 4) if knob else (None,):
            try:
                built.append(bg.topology(name, n=n, **({knob: value} if knob else {})))
            except bg.InvalidArgument as refusal:
                # Some topologies exist for some n only, block-merge for k of 2 and more.
                assert refusal.argument in ("n", knob)
    return built


@pytest.fixture(params=ONE_STATE)
def topologies(request):
    built = variants(request.param)
    assert len(built) >= 4
    return built


def steps_of(t):
    return t.period or 6


def test_rounds_are_what_a_round_must_be(topologies):
    for t in topologies:
        assert_valid_rounds(t, steps_of(t))
        for step in range(steps_of(t)):
            assert_arcs_well_formed(t.round(step))


def test_degree(topologies):
    for t in topologies:
        assert_degree_is_reached(t, steps_of(t))


def test_one_node_agrees_with_the_round(topologies):
    for t in topologies:
        assert_nodes_agree_with_rounds(t, steps_of(t))


def test_the_listeners_of_one_node_agree_with_the_round(topologies):
    for t in topologies:
        assert_listeners_agree_with_rounds(t, steps_of(t))


CLOSED_FORMS = sorted(
    set(ONE_STATE)
    - {"complete", "hyper-hypercube", "one-peer-hypercube", "short", "block-mix", "block-merge"}
)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_a_node_among_very_many_is_answered_without_building_a_round(name):
    t = bg.topology(name, n=10**12)
    with pytest.raises(bg.InvalidArgument, match="more than this machine's memory"):
        t.round(0)
    for step in range(min(steps_of(t), 4)):
        for sender in t.neighbors(123_456_789, step):
            assert 123_456_789 in t.listeners(sender, step)


def test_time(topologies):
    for t in topologies:
        assert_time_is_an_argument(t)


def test_spec_builds_the_same_again(topologies):
    for t in topologies:
        again = bg.topology(t.spec, n=t.n)
        assert (again.spec, again.name, again.period) == (t.spec, t.name, t.period)
        assert all(again.round(step) == t.round(step) for step in range(steps_of(t)))


def test_can_be_sent_to_another_process(topologies):
    for t in topologies[-2:]:
        again = pickle.loads(pickle.dumps(t))
        assert (again.spec, again.n) == (t.spec, t.n)
        assert again.round(1) == t.round(1)


def test_proof_agrees_with_exact_fractions(topologies):
    for t in topologies:
        if t.period is None or t.n > 12:
            continue
        for method in ("exact", "freivalds"):
            if is_finite_time(list(t)):
                assert bg.verify(t, method=method).max_degree == t.max_degree
            else:
                with pytest.raises(bg.NotFiniteTime):
                    bg.verify(t, method=method)


@pytest.mark.parametrize("name", sorted(bg.TOPOLOGIES))
def test_has_a_one_line_description(name):
    description = bg.TOPOLOGIES[name].description
    assert 20 < len(description) < 100
    assert description.endswith(".")


@pytest.mark.parametrize("name", sorted(bg.TOPOLOGIES))
@pytest.mark.parametrize("n", [0, -1, 2.5, "5", None, True])
def test_bad_n(name, n):
    with pytest.raises(bg.InvalidArgument, match=r"n=.*must be an integer ≥ \d"):
        bg.topology(name, n=n)


@pytest.mark.parametrize("name", sorted(bg.TOPOLOGIES))
def test_bad_options(name):
    for option in bg.TOPOLOGIES[name].options.keys() & {"k", "degree"}:
        for value in (0, -2, 1.0, "2", True):
            with pytest.raises(bg.InvalidArgument, match=rf"{option}=.*must be an integer ≥ \d"):
                bg.topology(name, n=8, **{option: value})
    for option in bg.TOPOLOGIES[name].options.keys() & {"seed"}:
        for value in (-1, 0.5, 2**64):
            with pytest.raises(bg.InvalidArgument, match=f"{option}="):
                bg.topology(name, n=8, **{option: value}).round(0)
    with pytest.raises(bg.InvalidArgument, match=f"option of {name}='sede'"):
        bg.topology(name, n=8, sede=1)


@pytest.mark.parametrize("bad", [-1, 1.5, "0", None])
def test_bad_step_or_node(topologies, bad):
    t = topologies[-1]
    with pytest.raises(bg.InvalidArgument, match="step="):
        t.round(bad)
    with pytest.raises(bg.InvalidArgument, match="i="):
        t.neighbors(bad, 0)
    with pytest.raises(bg.InvalidArgument, match="i="):
        t.listeners(bad, 0)
    for ask in (t.neighbors, t.listeners):
        with pytest.raises(bg.InvalidArgument, match="i="):
            ask(t.n, 0)
