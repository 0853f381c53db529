"""Bytes that a node sends."""

from __future__ import annotations

import pytest

import basegraph as bg
from basegraph import wires
from basegraph.data.catalog import load
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem
from basegraph.training.traffic import BytesSent


@pytest.mark.parametrize(
    ("fields", "steps", "vectors"),
    [
        ({"topology": "base:k=1"}, 7, 7 * 4 / 5),
        ({"topology": "ring", "algorithm": "gradient-tracking"}, 1, 2 * 2),
        ({"algorithm": "allreduce-sgd"}, 1, 2 * 4 / 5),
        ({"topology": "ring", "local_steps": 4}, 7, 2),
        ({"topology": "ring", "algorithm": "adamw"}, 3, 3 * 2),
        ({"topology": "ring", "algorithm": "adamw:mix_moments=true"}, 1, 3 * 2),
        ({"algorithm": "allreduce-adamw"}, 1, 2 * 4 / 5),
        ({"topology": "ring", "local_steps": 4, "outer": "dsgdm"}, 11, 2 * 2),
        ({"topology": "ring", "local_steps": 4, "outer": "gradient-tracking"}, 4, 2 * 2),
        ({"algorithm": "adamw", "local_steps": 4, "outer": "allreduce-sgd"}, 11, 2 * 2 * 4 / 5),
    ],
)
def test_bytes_are_counted(fields, steps, vectors):
    config, digits = RunConfig(nodes=5, **fields), load("digits")
    problem = Problem(config, digits, build("mlp", digits.shape, 10, 0))
    size = problem.model.size * 4
    assert problem.bytes_sent(steps) == pytest.approx(vectors * size)


@pytest.mark.parametrize("spec", ["base:k=1", "short", "one-peer-u-equidyn", "one-peer-d-equidyn"])
def test_bytes_are_those_of_the_rounds_that_were_made(spec, monkeypatch):
    """Asked for in any order; no round of a random topology is built twice."""
    t = bg.topology(spec, n=6)
    sent = BytesSent(t, bg.algorithm("dsgd"), 1, vector_bytes=60)
    arcs = [len(t.round(step).senders) for step in range(40)]
    built = []
    really = t.round
    monkeypatch.setattr(t, "round", lambda index: built.append(index) or really(index))
    for step in (7, 0, 40, 3, 40, 21):
        assert sent.by(step) == pytest.approx(sum(arcs[:step]) * 10)
    assert sorted(built) == list(range(min(40, t.period or 40)))


@pytest.mark.parametrize(
    ("wire", "whole"), [("bf16", 0), ("int8", 0), ("topk:0.1", 2), ("randk:0.1", 0)]
)
def test_bytes_are_those_of_the_wire(wire, whole):
    """Scales and places included; the first message of a link is a whole vector."""
    config, digits = RunConfig(nodes=5, topology="ring", wire=wire), load("digits")
    problem = Problem(config, digits, build("mlp", digits.shape, 10, 0))
    size = problem.model.size
    message = wires.wire(wire).message_bytes(size)
    expected = 2 * 7 * message + whole * (4 * size - message)
    assert problem.bytes_sent(7) == pytest.approx(expected)
