"""Mixing over a wire, all nodes in one process: the average is kept, nodes agree."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import basegraph as bg
from basegraph.engines.stacked.mixer import StackedMixer
from basegraph.engines.stacked.wired import WiredMixer
from basegraph.errors import InvalidArgument
from basegraph.wires import wire

CPU = torch.device("cpu")
SPECS = ["bf16", "int8", "fp8", "int8:links=true", "topk:0.1", "topk:0.05,step=1.0", "randk:0.1"]
TOPOLOGIES = ["base", "short", "ring", "one-peer-exponential", "exponential", "complete"]


def starts(n, size=40, seed=0, apart=1.0):
    draws = torch.Generator().manual_seed(seed)
    common = torch.randn(1, size, generator=draws)
    return common + apart * torch.randn(n, size, generator=draws)


def mixed(t, spec, x, rounds, first=0, mixer=None):
    mixer = mixer or WiredMixer(t, CPU, x.dtype, wire(spec))
    for number in range(first, first + rounds):
        x = mixer.round(number)(x)
    return x


def fits(t, spec):
    return t.symmetric or not wire(spec).links


def moved_average(x, before, residue=0.0):
    """How far the average over nodes has moved, in units in the last place of the largest value.

    Args:
        x: Where the nodes are.
        before: Where they were.
        residue: What rounding has left out of x.

    """
    off = (x.double() + residue - before.double()).mean(0).abs().max()
    largest = torch.stack([x, before]).abs().max()  # top-k with γ = 1 spreads a complete graph
    return float(off / (largest * 2.0**-23))


@settings(max_examples=60, deadline=None)
@given(
    spec=st.sampled_from(SPECS),
    name=st.sampled_from(TOPOLOGIES),
    n=st.integers(2, 20),
    k=st.integers(1, 4),
    seed=st.integers(0, 10**6),
)
@example(spec="topk:0.05,step=1.0", name="complete", n=12, k=1, seed=0)
@example(spec="int8:links=true", name="complete", n=20, k=1, seed=0)
def test_the_average_over_nodes_is_kept(spec, name, n, k, seed):
    """With what rounding has left out, far beyond the precision of x where rounds are symmetric."""
    t = bg.topology(f"{name}:k={k}" if name in ("base", "short") else name, n=n)
    if fits(t, spec):
        start = starts(n, seed=seed)
        mixer = WiredMixer(t, CPU, start.dtype, wire(spec))
        x = mixed(t, spec, start, 40, mixer=mixer)
        assert moved_average(x, start) < 2
        residue = mixer.tensors(x).get("wire.residue")
        if t.symmetric and residue is not None:
            assert moved_average(x, start, residue.double()) < 1e-4


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", ["base:k=1", "base:k=2", "ring", "one-peer-exponential"])
def test_the_average_over_nodes_is_kept_for_ten_thousand_rounds(name, spec):
    t = bg.topology(name, n=7)
    if not fits(t, spec):
        pytest.skip("directed rounds")
    x = starts(7, size=300)
    off = moved_average(mixed(t, spec, x, 10_000), x)
    print(f"{name} {spec}: {off:.2f} ulp")
    assert off < 2


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_nodes_that_agree_do_not_move(name, spec):
    t = bg.topology(name, n=6)
    if fits(t, spec):
        x = starts(1).expand(6, -1).clone()
        assert torch.equal(mixed(t, spec, x, 30), x)


@pytest.mark.parametrize("spec", SPECS)
def test_a_node_alone_stays_where_it_is(spec):
    x = starts(1)
    assert torch.equal(mixed(bg.topology("base", n=1), spec, x, 3), x)


@pytest.mark.parametrize(
    ("spec", "floor"),
    [("bf16", 1e-4), ("int8", 1e-3), ("fp8", 1e-2), ("int8:links=true", 1e-12)],
)
def test_the_error_floor(spec, floor):
    """What is left of the disagreement; it vanishes where differences are sent."""
    t = bg.topology("base:k=1", n=12)
    x = mixed(t, spec, starts(12), 8 * t.period)
    left = float((x - x.mean(0)).square().mean())
    assert left < floor
    assert left > 1e-9 or wire(spec).links


@pytest.mark.parametrize("name", ["base:k=1", "base:k=3", "ring", "steady", "complete"])
def test_top_k_agrees_in_the_end(name):
    t = bg.topology(name, n=9)
    x = starts(9, size=400)
    left = float((mixed(t, "topk:0.1", x, 400) - x.mean(0)).square().mean())
    assert left < 2e-2 if name == "ring" else left < 1e-4


def test_random_k_averages_exactly_in_whole_periods():
    """ceil(1/fraction) periods, the places staying the same in each."""
    t = bg.topology("base:k=1", n=6)
    x = starts(6, size=40)
    spec = f"randk:0.25,rounds={t.period}"
    almost = mixed(t, spec, x, 4 * t.period - 1)
    assert (almost - x.mean(0)).abs().max() > 1e-2
    torch.testing.assert_close(mixed(t, spec, x, 4 * t.period), x.mean(0).expand(6, -1))


def test_the_first_message_of_a_link_is_whole():
    """So the first period is that of exact gossip, whatever is sent later."""
    t = bg.topology("base:k=1", n=8)
    x = starts(8)
    torch.testing.assert_close(mixed(t, "topk:0.01,step=1.0", x, t.period), x.mean(0).expand(8, -1))


@pytest.mark.parametrize("spec", ["float32", "bf16"])
def test_a_wide_enough_type_is_plain_mixing(spec):
    t = bg.topology("base:k=2", n=7)
    x = starts(7).to(torch.float32 if spec == "float32" else torch.bfloat16)
    plain = StackedMixer(t, CPU, x.dtype)
    assert torch.equal(WiredMixer(t, CPU, x.dtype, wire(spec)).round(0)(x), plain.round(0)(x))


@pytest.mark.parametrize("name", ["one-peer-exponential", "one-peer-u-equidyn"])
def test_links_need_both_directions_and_a_period(name):
    with pytest.raises(InvalidArgument, match=r"rounds of one-peer-.* do not allow"):
        WiredMixer(bg.topology(name, n=6), CPU, torch.float32, wire("topk:0.1"))
