"""Which topology to take: predicted times, the ranking, what was measured, and mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import basegraph as bg
from basegraph.experiments.measured_accuracy import REFERENCE, TABLE, evidence
from basegraph.topologies.analysis.network import Network, cost, load
from basegraph.topologies.analysis.step_time import ddp_step, gossip_step
from basegraph.units import seconds_text
from support.cli import ok, run_here

ROOT = Path(__file__).resolve().parents[2]
CASE = {"bandwidth": "1Gbit", "latency": "1ms", "model_size": "9.2M", "step_time": "50ms"}
SIZE, FAST = 36_800_000, 125e6
FLAGS = [word for name, value in CASE.items() for word in (f"--{name.replace('_', '-')}", value)]
SHORT = ("base:k=1", "ring", "one-peer-exponential")


def test_step_times_by_hand():
    """Of two buckets the second is filled at the end of the backward pass, the first halfway."""
    network = Network(bandwidth=FAST, latency=1e-3)
    one_message = 1e-3 + SIZE / FAST
    base = load("base:k=1", 25)
    assert gossip_step(base, SIZE, network, 0.05, "combine-then-adapt") == pytest.approx(
        one_message
    )
    assert gossip_step(base, SIZE, network, 0.4, "combine-then-adapt") == pytest.approx(0.4)
    later = gossip_step(base, SIZE, network, 0.05, "adapt-then-combine")
    assert later == pytest.approx(0.05 + one_message)
    ring = load("all-reduce", 25)
    bucket = 48 * (1e-3 + SIZE / 2 / 25 / FAST)
    assert ddp_step(ring, SIZE, network, 0.06) == pytest.approx(0.02 + 0.02 + 2 * bucket)
    assert ddp_step(ring, SIZE, network, 6.0) == pytest.approx(6 + bucket)


def test_rounds_of_different_length_hide_one_by_one():
    """A period of base:k=2 has rounds of one message and of two."""
    network = Network(bandwidth=FAST, latency=0)
    rounds = load("base:k=2", 25)
    spent = [count * max(0.4, sent * SIZE / FAST) for count, sent, _ in rounds.rounds]
    step = gossip_step(rounds, SIZE, network, 0.4, "combine-then-adapt")
    assert step == pytest.approx(sum(spent) / rounds.length)
    assert step > max(0.4, cost("base:k=2", 25, SIZE, network).seconds_per_step)


def test_the_issue_of_a_slow_network():
    advice = bg.advise(25, **CASE, alpha=0.1)
    best = advice.best
    assert (best.topology, best.method, best.order) == ("base:k=1", "dsgdm", "combine-then-adapt")
    assert best.rounds_to_average == 9
    assert best.bytes_per_step == SIZE
    ddp = [choice for choice in advice.choices if choice.is_ddp]
    assert [choice.topology for choice in ddp] == ["all-reduce", "all-reduce-halving"]
    assert best.times_faster == pytest.approx(ddp[0].step_seconds / best.step_seconds)
    steps = [choice.step_seconds for choice in advice.choices]
    assert all(later >= step / 1.02 for step, later in pairwise(steps)), "the fastest first"
    assert len({choice.topology for choice in advice.choices}) == len(advice.choices)


def test_a_fast_network_is_for_ddp():
    advice = bg.advise(8, **{**CASE, "bandwidth": "400Gbit", "latency": "5us"})
    assert advice.best.is_ddp
    assert "Take DDP" in ok(
        "advise", "-n", 8, "--bandwidth", "400Gbit", "--latency", "5us", "--model-size", "9.2M",
        "--step-time", "50ms",
    )  # fmt: skip
    (base,) = [choice for choice in advice.choices if choice.topology == "base:k=1"]
    assert base.order == "adapt-then-combine", "both orders are level: the one that was measured"


def test_break_even_is_where_step_times_meet():
    case = {**CASE, "latency": 0, "step_time": 0.5}
    for choice in bg.advise(25, **case, topologies=("base:k=1", "exponential")).choices:
        if choice.is_ddp:
            continue
        assert choice.break_even is not None
        ends = [choice.break_even.above, choice.break_even.below]
        assert any(end is not None for end in ends)
        for end in filter(None, ends):
            there = bg.advise(25, **{**case, "bandwidth": end}, topologies=(choice.topology,))
            network = Network(bandwidth=end, latency=0)
            again = gossip_step(load(choice.topology, 25), SIZE, network, 0.5, choice.order)
            (ddp,) = [c.step_seconds for c in there.choices if c.topology == "all-reduce"]
            assert ddp / again == pytest.approx(1.02, rel=1e-3)


def test_topologies_with_the_same_rounds_are_one_choice():
    advice = bg.advise(8, **CASE, topologies=("base:k=1", "short:k=1", "one-peer-hypercube"))
    (choice,) = [c for c in advice.choices if not c.is_ddp]
    assert choice.same_as == ("short:k=1", "one-peer-hypercube")


def test_what_was_measured_is_made_from_the_results(tmp_path):
    """The table is what the script makes of docs/results, and agrees with the tables there."""
    made = tmp_path / "table.json"
    script = ROOT / "scripts" / "measured_accuracy.py"
    subprocess.run([sys.executable, script, "--out", made], check=True, capture_output=True)
    assert made.read_text() == TABLE.read_text(), f"run {script.name} again"
    by_hand = {
        (row.source.rpartition("/")[2], row.lr): (row.accuracy, row.above, row.error)
        for row in evidence("one-peer-exponential", 0.1)
    }
    assert by_hand["pairs-cifar10-0.02", 0.02] == (53.91, -3.12, 0.23)
    assert by_hand["vgg11", 0.1] == (83.82, -0.62, 0.09)


def test_nothing_is_said_where_nothing_was_measured():
    assert evidence("short:k=2", 0.1) == []
    assert evidence("short:k=1", None) == [], "with alike data only MNIST was trained"
    (choice,) = [c for c in bg.advise(9, **CASE, topologies=("short:k=2",)).choices if not c.is_ddp]
    assert choice.accuracy == "not measured"
    assert choice.reason.endswith("accuracy: not measured.")


def test_differences_within_their_error_are_none():
    rows = {row.source.rpartition("/")[2]: row for row in evidence("short:k=1", 0.1)}
    assert rows["pairs-digits"].decided == 0
    assert rows["pairs-cifar10"].decided == -1.66
    three_seeds = evidence("short:k=1,home=true", 0.1)[-1]
    assert (three_seeds.above, three_seeds.error, three_seeds.decided) == (-0.23, 0.11, 0)
    assert {row.topology for row in rows.values()} == {"euclid"}, "its name there, same rounds"
    assert all(row.topology == REFERENCE for row in evidence(REFERENCE, 0.1))


def test_large_differences_of_few_seeds_are_not_called_level():
    rows = {row.source.rpartition("/")[2]: row for row in evidence("exponential", 10.0)}
    assert (rows["dsgd"].above, rows["dsgd"].decided, rows["dsgd"].uncertain) == (1.0, 0, 1.0)
    assert (rows["mnist"].decided, rows["mnist"].uncertain) == (0, 0)
    choices = bg.advise(25, **CASE, alpha=10.0).choices
    (choice,) = [c for c in choices if c.topology == "exponential"]
    assert choice.accuracy == "+1 points (uncertain) in 1 of 2 settings, else level"


def test_the_table_in_the_docs_is_what_the_command_says():
    page = (ROOT / "docs" / "howto" / "choose.md").read_text(encoding="utf-8")
    table = page.partition("| --- |")[2].partition("\n\n")[0].splitlines()[1:]
    assert len(table) == 6
    advice = bg.advise(25, **CASE, alpha=0.1)
    shown = {
        "DDP, ring all-reduce" if c.is_ddp else f"`{c.topology}`": c for c in advice.choices[::-1]
    }
    for row in table:
        name, order, step, faster, megabytes, rounds, accuracy = row.strip("| ").split(" | ")
        choice = shown[name]
        assert (order, accuracy) == (choice.order or "–", choice.accuracy)
        assert (step, faster) == (seconds_text(choice.step_seconds), f"{choice.times_faster:.2f}x")
        assert (float(megabytes), rounds) == (
            round(choice.bytes_per_step / 1e6, 1),
            str(choice.rounds_to_average or "–"),
        )


def test_command():
    text = ok("advise", "--nodes", 25, *FLAGS, "--alpha", "0.1", "--topologies", ",".join(SHORT))
    assert text.startswith("25 nodes, 36.8 MB, links of 1 Gbit/s, latency 1 ms, 50 ms of computing")
    assert "1. base:k=1: its exchange of 295 ms runs beside the 50 ms of computing;" in text
    assert "Take base:k=1, combine-then-adapt: a step is 2.35 times as fast as DDP's" in text
    assert "combine-then-adapt was not measured" in text
    rows = json.loads(ok("advise", "-n", 25, *FLAGS, "--alpha", "0.1", "--json"))
    assert rows[0]["topology"] == "base:k=1"
    assert rows[0]["break_even"] == {"ever": True, "above": None, "below": None}
    assert {e["source"] for e in rows[0]["evidence"]} >= {"docs/results/vgg11"}
    assert "Example: basegraph advise" in ok("advise", "--help")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"nodes": "1"}, "--nodes='1': must be an integer ≥ 2"),
        ({"nodes": "25.5"}, "--nodes='25.5': must be an integer ≥ 2"),
        ({"bandwidth": "1G"}, "--bandwidth='1G': must be bits or bytes per second"),
        ({"bandwidth": "-1Gbit"}, "--bandwidth='-1Gbit': must be bits or bytes per second"),
        ({"model-size": "9.2 apples"}, "--model-size='9.2 apples': must be parameters"),
        ({"model-size": "7B"}, "--model-size='7B': may be bytes or billions"),
        ({"step-time": "50"}, "--step-time='50': must be a time such as"),
        ({"step-time": "0"}, "--step-time='0': must be a time above 0"),
        ({"latency": "-1ms"}, "--latency='-1ms': must be a time such as"),
        ({"alpha": "-0.1"}, "--alpha=-0.1: must be a number above 0"),
        ({"alpha": "much"}, "--alpha='much': must be a number"),
        ({"topologies": "one-peer-u-equidyn"}, "--topologies='one-peer-u-equidyn': is random"),
    ],
)
def test_mistakes_are_one_line(changed, complaint):
    given = {"nodes": "25", **{name.replace("_", "-"): v for name, v in CASE.items()}, **changed}
    result = run_here("advise", *[f"--{name}={value}" for name, value in given.items()])
    assert result.returncode == 2
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("wrong", [0, -1.0, float("inf"), True, None])
def test_numbers_out_of_range(wrong):
    with pytest.raises(bg.InvalidArgument, match="bandwidth"):
        bg.advise(25, **{**CASE, "bandwidth": wrong})
