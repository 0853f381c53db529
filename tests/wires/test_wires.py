"""Codecs and specs: what is lost on a wire, and how many bytes are sent."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import basegraph as bg
from basegraph.errors import InvalidArgument
from basegraph.wires import WIRES, wire
from basegraph.wires.contract import layout_bytes, unpacked
from support.cli import ok, run_here

CODECS = ["bf16", "float16", "int8", "int8:block=7", "fp8", "fp8:block=64", "topk:0.01", "topk:0.3"]
REFUSED = {
    "int9": "wire='int9': did you mean 'int8'? Known: ",
    "int8:blocks=3": "option of int8='blocks': did you mean 'block'?",
    "int8:block=0": "block=0: must be an integer ≥ 1",
    "int8:block=x": "block='x': must be an integer",
    "int8:links=3": "links=3: must be True or False",
    "topk:1.5": "fraction=1.5: must be a number in (0, 1]",
    "topk:0": "fraction=0.0: must be a number in (0, 1]",
    "topk:nan": "fraction=nan: must be a number in (0, 1]",
    "topk:a,b": "options are written name:option=value",
    "topk:0.1,step=0": "step=0.0: must be a number in (0, 1]",
    "randk:0.1,rounds=0": "rounds=0: must be an integer ≥ 1",
}

TINY = torch.finfo(torch.float32).tiny


def vectors(size, seed=0, lead=()):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(*lead, size, generator=draws)


def passed(spec, v):
    codec = wire(spec).codec
    return codec.decode(codec.encode(v), v.shape[-1], v.dtype)


@pytest.mark.parametrize("spec", REFUSED)
def test_wrong_wires_are_refused_in_one_line(spec):
    with pytest.raises(InvalidArgument) as refusal:
        wire(spec)
    assert REFUSED[spec] in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("value", [torch.int8, torch.complex64, 8, torch.float8_e4m3fn])
def test_other_types_are_refused(value):
    with pytest.raises(InvalidArgument, match="must be a floating-point type"):
        wire(value)


@pytest.mark.parametrize("name", WIRES)
def test_a_spec_asks_for_the_same_again(name):
    one = wire(name)
    assert wire(one.spec) == one
    assert wire(one) is one


def test_types_and_names_are_one_wire():
    assert wire(torch.bfloat16) == wire("bf16")
    assert wire("topk:0.05") == wire("topk:fraction=0.05")
    assert wire("topk:0.05,step=0.25").step == 0.25


@pytest.mark.parametrize("spec", CODECS)
@pytest.mark.parametrize("size", [1, 6, 7, 255, 256, 257, 1000])
def test_bytes_are_those_of_the_message(spec, size):
    """Packed into one vector of bytes, and read from it again."""
    v = vectors(size)
    chosen = wire(spec)
    layout = chosen.codec.layout(size, v.dtype)
    parts = chosen.codec.encode(v)
    assert [(part.dtype, part.numel()) for part in parts] == list(layout)
    message = torch.cat([part.view(torch.uint8) for part in parts])
    assert message.numel() == layout_bytes(layout) == chosen.message_bytes(size)
    again = chosen.codec.decode(unpacked(message, layout), size, v.dtype)
    assert torch.equal(again, passed(spec, v))


@pytest.mark.parametrize("spec", CODECS)
def test_a_node_axis_changes_nothing(spec):
    """All nodes at once, as the simulator has them, bit for bit as one node after another."""
    v = vectors(523, lead=(4,))
    assert torch.equal(passed(spec, v), torch.stack([passed(spec, row) for row in v]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=40),
    st.integers(1, 9),
)
def test_int8_is_off_by_half_a_level(values, block):
    """Blocks whose level would not be a normal number are sent as zeros."""
    v = torch.tensor(values)
    off = (passed(f"int8:block={block}", v) - v).abs()
    for first in range(0, len(v), block):
        largest = float(v[first : first + block].abs().max())
        level = largest / 127
        allowed = level * (0.5 + 1e-4) if level > 1.001 * TINY else largest
        assert float(off[first : first + block].max()) <= allowed


def test_fp8_is_off_by_a_sixteenth():
    v = vectors(4096)
    off = (passed("fp8", v) - v).abs()
    scale = v.view(-1, 256).abs().amax(1).repeat_interleave(256) / 448
    assert (off <= torch.maximum(v.abs() / 16, scale / 1024) * (1 + 1e-5)).all()


@pytest.mark.parametrize("fraction", [0.001, 0.01, 0.1, 0.3, 1.0])
def test_top_k_keeps_at_least_its_share_of_the_norm(fraction):
    """The contraction that the proofs rely on; of a vector whose values are alike, no more."""
    for v in (vectors(5000), torch.ones(5000)):
        lost = (v - passed(f"topk:{fraction}", v)).square().sum()
        assert lost <= (1 - fraction) * v.square().sum() * (1 + 1e-6)
    assert wire(f"topk:{fraction}").message_bytes(10**6) < 8.1e6 * fraction


@pytest.mark.parametrize("spec", ["int8", "fp8", "topk:0.1", "bf16"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_not_hidden(spec, value):
    v = vectors(600)
    v[300] = value
    assert not torch.isfinite(passed(spec, v)).all()


@pytest.mark.parametrize("spec", ["int8", "fp8"])
def test_zeros_and_tiny_values_are_sent_as_zeros(spec):
    for v in (torch.zeros(300), torch.full((300,), 1e-44)):
        assert torch.equal(passed(spec, v), torch.zeros(300))


@pytest.mark.parametrize(("fraction", "size"), [(0.1, 100), (0.3, 97), (0.01, 1234), (1.0, 5)])
def test_random_places_take_turns(fraction, size):
    """Every place once before any comes again, but for the last draw; the same at all nodes."""
    chosen = wire(f"randk:{fraction},rounds=3").coordinates
    count = chosen.count(size)
    turns = -(-size // count)
    draws = [chosen.at(3 * turn, size, torch.device("cpu")) for turn in range(turns + 1)]
    assert {len(set(draw.tolist())) for draw in draws} == {count}
    assert set(torch.cat(draws[:-1]).tolist()) == set(range(size))
    assert torch.equal(draws[1], chosen.at(5, size, torch.device("cpu")))
    if turns > 2:
        assert not torch.equal(draws[-1], draws[0])


def test_the_command_shows_the_floor():
    """`basegraph consensus --wire`, one curve per wire; what does not fit is refused in a line."""
    shown = ["consensus", "--nodes", 5, "--topologies", "base:k=1", "--steps", 30, "--json"]
    rows = json.loads(ok(*shown, "--wire", "int8", "--wire", "int8:links=true"))
    left = {row["wire"]: row["error"] for row in rows if row["step"] == 30}
    assert 0 < left["int8:links=true"] < 0.1 * left["int8"]
    assert max(row["average_moved"] for row in rows) < 1e-6
    for spec, complaint in (("int9", "did you mean 'int8'"), ("topk:2", "in (0, 1]")):
        refused = run_here(*shown, "--wire", spec)
        assert refused.returncode == 2
        assert complaint in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_the_average_stays_with_several_neighbors():
    """Roundings on a coarse grid repeat from round to round: they must not add up."""
    shown = ["consensus", "--nodes", 3, "--topologies", "ring", "--steps", 1000, "--json"]
    rows = json.loads(ok(*shown, "--wire", "fp8"))
    assert max(row["average_moved"] for row in rows) < 2e-7


@pytest.mark.parametrize("spec", ["int8", "bf16"])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"algorithm": "gradient-tracking"}, "gradient-tracking"),
        ({"algorithm": "adamw:mix_moments=true"}, "adamw:mix_moments=true"),
        ({"algorithm": "adamw", "outer": "adamw:mix_moments=true"}, "adamw+adamw:mix_moments=true"),
    ],
)
def test_methods_that_mix_more_are_named_with_what_makes_them(spec, fields, named, tmp_path):
    config = bg.RunConfig(nodes=3, epochs=1, topology="ring", wire=spec, **fields)
    with pytest.raises(InvalidArgument) as refusal:
        bg.train(config, tmp_path / "run")
    assert str(refusal.value) == (
        f"wire='{spec}': is for methods that mix the model alone (dsgd, dsgdm, qg-dsgdm, adamw), "
        f"not {named}"
    )
