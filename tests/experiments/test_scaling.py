"""The model of what gossip costs against the number of nodes, and its command."""

from __future__ import annotations

import json

import pytest

import basegraph as bg
from basegraph.experiments.scaling import Network, cost
from basegraph.units import bandwidth, seconds
from support.cli import ok, run_here

SIZE = 1_000_000
FAST = Network(bandwidth=1e6, latency=0.0)
"""A message of SIZE takes a second."""
FAR = Network(bandwidth=1e30, latency=1.0)
"""A message of any size takes a second."""


@pytest.mark.parametrize("n", [*range(2, 40), 243, 1000, 4096])
@pytest.mark.parametrize("spec", ["base:k=1", "base:k=3", "short:k=1", "simple-base:k=2"])
def test_exact_sequences_cost_their_length_and_degree(spec, n):
    t = bg.topology(spec, n=n)
    near, far = cost(spec, n, SIZE, FAST), cost(spec, n, SIZE, FAR)
    assert near.exact
    assert far.seconds_to_average == pytest.approx(len(t))
    assert far.seconds_per_step == pytest.approx(1)
    if n < 40:
        degrees = [[len(r.neighbors(i)) for i in range(n)] for r in t]
        busiest = [max(in_round) for in_round in degrees]
        assert near.bytes_to_average == SIZE * max(map(sum, zip(*degrees, strict=True)))
        assert near.seconds_to_average == pytest.approx(sum(busiest))
        assert near.seconds_per_step == pytest.approx(sum(busiest) / len(t))


def test_what_never_reaches_the_average_has_no_time_to_it():
    for spec, n in (("ring", 8), ("exponential", 8), ("one-peer-exponential", 6)):
        whole = cost(spec, n, SIZE, FAST)
        assert not whole.exact
        assert whole.seconds_to_average is None
        assert whole.bytes_to_average is None
    assert cost("one-peer-exponential", 8, SIZE, FAST).seconds_to_average == 3


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 1000, 4096])
def test_all_reduces_cost_what_is_known_of_them(n):
    ring = cost("all-reduce", n, SIZE, FAST)
    assert ring.bytes_per_step == ring.bytes_to_average == pytest.approx(2 * (n - 1) / n * SIZE)
    assert ring.seconds_per_step == pytest.approx(2 * (n - 1) / n)
    assert cost("all-reduce", n, SIZE, FAR).seconds_per_step == pytest.approx(2 * (n - 1))
    halving = cost("all-reduce-halving", n, SIZE, FAST)
    levels = n.bit_length() - 1
    core, surplus = 2**levels, n != 2**levels
    assert halving.seconds_per_step == pytest.approx(2 * (core - 1) / core + 2 * surplus)
    far = cost("all-reduce-halving", n, SIZE, FAR)
    assert far.seconds_per_step == pytest.approx(2 * levels + 2 * surplus) == far.rounds


def test_half_duplex_pays_for_both_directions():
    shared = Network(bandwidth=1e6, latency=0.0, duplex=False)
    assert cost("base:k=1", 8, SIZE, shared).seconds_per_step == pytest.approx(2)
    assert cost("all-reduce", 8, SIZE, shared).seconds_per_step == pytest.approx(2 * 1.75)


def test_units():
    assert bandwidth("b", "8bit") == 1
    assert bandwidth("b", "1.5 Gbit/s") == 1.5e9 / 8
    assert bandwidth("b", "25MB/s") == bandwidth("b", "200mbit") == 25e6
    assert seconds("t", "50us") == seconds("t", "50µs") == pytest.approx(50e-6)
    assert seconds("t", "0") == seconds("t", "0ms") == 0


def test_command(tmp_path):
    text = ok("bench", "model", "-n", "8,25")
    assert text.startswith("model: VGG-11, 36.9 MB, links of 200 Mbit/s, full duplex")
    rows = json.loads(
        ok("bench", "model", "-n", "25", "--parameters", 10**6, "--bandwidth", "8Mbit",
           "--latency", "0", "--topologies", "all-reduce,base:k=1,u-equistatic:degree=2,seed=3",
           "--json")
    )  # fmt: skip
    names = ["all-reduce", "base:k=1", "u-equistatic:degree=2,seed=3"]
    assert [row["topology"] for row in rows] == names
    assert [row["rounds"] for row in rows[:2]] == [48, 9]
    assert [row["seconds_per_step"] for row in rows[:2]] == pytest.approx([4 * 48 / 25, 4])
    plot = tmp_path / "cost.svg"
    two = ["--topologies", "base:k=1,all-reduce"]
    text = ok("bench", "model", "-n", "2:4096", "--bytes", 1, *two, "--plot", plot)
    assert f"written to {plot}" in text
    drawn = plot.read_text()
    assert "seconds to the exact average" in drawn
    assert "all-reduce" in drawn
    assert "Example: basegraph bench model" in ok("bench", "model", "--help")


def test_a_topology_without_these_numbers_of_nodes_is_left_out():
    rows = json.loads(ok("bench", "model", "-n", "6:8", "--topologies", "one-peer-hypercube",
                         "--json"))  # fmt: skip
    assert [row["n"] for row in rows] == [8]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-n", "1"], "--nodes='1': must be integers ≥ 2"),
        (["--bandwidth", "5"], "--bandwidth='5': must be bits or bytes per second, such as"),
        (["--bandwidth", "0Mbit"], "--bandwidth='0Mbit': must be"),
        (["--latency", "-3ms"], "--latency='-3ms': must be a time such as 5ms"),
        (["--latency", "5"], "--latency='5': must be a time such as 5ms"),
        (["--bytes", "0"], "--bytes='0': must be an integer ≥ 1"),
        (["--bytes", "5", "--parameters", "5"], "say either --parameters or --bytes"),
        (["--topologies", "rong"], "did you mean 'ring'?"),
        (["--topologies", ""], "--topologies='': must name at least one topology"),
        (["--topologies", "one-peer-u-equidyn"], "the model knows no random one"),
        (["--topologies", "ring,base:k=0"], "--topologies='base:k=0': is not defined for --nodes"),
        (["-n", "9", "--topologies", "one-peer-hypercube", "--plot", "x.png"], "not defined for"),
        (["--plot", "x.txt"], "--plot='x.txt': must end in .png"),
    ],
)
def test_mistakes(arguments, complaint, tmp_path):
    done = run_here("bench", "model", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
