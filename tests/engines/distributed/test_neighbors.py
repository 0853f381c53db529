"""With whom a node exchanges at a step, against the rounds themselves."""

from __future__ import annotations

import pytest

import basegraph as bg
from basegraph.engines.distributed.neighbors import Schedule
from basegraph.topologies.catalog import TWO_STATE_NAMES
from basegraph.topologies.core.round import Round

STEPS = 12


@pytest.mark.parametrize("name", [name for name in bg.TOPOLOGIES if name not in TWO_STATE_NAMES])
@pytest.mark.parametrize("n", [1, 5, 6])
def test_neighbors_are_the_arcs_of_the_round(name, n):
    try:
        t = bg.topology(name, n=n)
    except bg.InvalidArgument:
        pytest.skip(f"{name} has no n={n}")
    schedules = [Schedule(t, node) for node in range(n)]
    for step in range(STEPS):
        r = t.round(step)
        for node, schedule in enumerate(schedules):
            neighbors = schedule.at(step)
            weights = {j: float(w) for j, w in r.neighbors(node).items()}
            assert dict(neighbors.hears) == weights
            assert list(neighbors.tells) == sorted(r.receivers[r.senders == node])
            assert neighbors.number == step


@pytest.mark.parametrize("local_steps", [1, 2, 3])
def test_rounds_come_one_after_another_between_local_steps(local_steps):
    t = bg.topology("base:k=1", n=5)
    schedule, plain = Schedule(t, 2, local_steps), Schedule(t, 2)
    numbers = []
    for step in range(STEPS):
        neighbors = schedule.at(step)
        assert schedule.communicates(step) == (neighbors is not None)
        if neighbors is not None:
            numbers.append(neighbors.number)
            assert neighbors == plain.at(neighbors.number)
            assert neighbors.place == f" (round {neighbors.number % t.period} of {t.period})"
    assert numbers == list(range(STEPS // local_steps))


@pytest.mark.parametrize("spec", ["base:k=1", "exponential", "one-peer-d-equidyn"])
def test_no_round_is_built_for_one_node(spec, monkeypatch):
    t = bg.topology(spec, n=25)

    def refuse(*arguments, **options):
        raise AssertionError("a whole round was built")

    monkeypatch.setattr(Round, "__init__", refuse)
    schedule = Schedule(t, 3)
    assert all(schedule.at(step) is not None for step in range(STEPS))


def test_two_vectors_per_node_hear_one_whole():
    t = bg.topology("ceca", n=6)  # 5 is 101: x, y, x
    schedule = Schedule(t, 0, local_steps=2)
    assert schedule.at(0) is schedule.pair_rule(0) is None
    heard = [schedule.at(step) for step in (1, 3, 5)]
    assert [(n.hears, n.tells) for n in heard] == [(((j, 1.0),), (6 - j,)) for j in (5, 5, 3)]
    rules = [schedule.pair_rule(step) for step in (1, 3, 5)]
    assert [(r.sender, r.sent, r.swaps) for r in rules] == [
        (5, 0.5, True),
        (5, 0.5, True),
        (3, 0.5, False),
    ]
    assert [r.other for r in rules] == pytest.approx([1.0, 1 / 3, 3 / 5])
    assert Schedule(bg.topology("ring", n=6), 0).pair_rule(0) is None
