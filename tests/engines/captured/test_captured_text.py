"""The captured step of a transformer: the same numbers as the plain one."""

from __future__ import annotations

import pytest
import torch

from basegraph.data.catalog import load
from basegraph.engines.captured.engine import CapturedEngine
from basegraph.engines.select import single_process_engine
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.training.config import RunConfig
from basegraph.training.modules import build_model
from basegraph.training.problem import Problem
from support.captured import assert_same_losses, needs_gpu


def make_text(kind=single_process_engine, **fields):
    """A transformer on the embedded text, a domain for each node."""
    shared = {"nodes": 6, "epochs": 2, "epoch_steps": 3, "batch": 2, "split": "domains"}
    config = RunConfig(**{**shared, "model": "gpt-tiny:layers=1", "algorithm": "adamw", **fields})
    text = load("text", context=64)
    return kind(text, [Problem(config, text, build_model(config, text))])


def assert_same_on_text(fast, plain):
    """Steps beyond an epoch, and the scores of every domain."""
    for _ in range(5):
        fast.advance()
        plain.advance()
    assert torch.allclose(fast.nodes.x_nd.cpu(), plain.nodes.x_nd, atol=2e-6)
    assert_same_losses(fast, plain)
    (ours,), (theirs,) = fast.runs, plain.runs
    scores, expected = (run.evaluate(run.problem.evaluated_last) for run in (ours, theirs))
    assert scores.keys() == expected.keys() >= {"test", "test/0", "test/5", "validation"}
    for name, score in scores.items():
        assert score == pytest.approx(expected[name], rel=1e-5)


@pytest.mark.usefixtures("not_captured")
def test_the_captured_functions_read_text():
    fields = {"lr": 1e-3, "device": "cpu", "compile": False, "precision": "float32"}
    assert_same_on_text(make_text(CapturedEngine, **fields), make_text(StackedEngine, **fields))


@needs_gpu
@pytest.mark.parametrize("compile", [False, True])
def test_captured_steps_on_text_are_the_plain_ones(compile):
    fields = {"lr": 1e-3, "precision": "float32", "compile": compile}
    fast, plain = (make_text(device=device, **fields) for device in ("cuda", "cpu"))
    assert isinstance(fast, CapturedEngine)
    assert fast.nodes.data.inputs.dtype == torch.uint8
    assert_same_on_text(fast, plain)
