"""The captured step: the same numbers as the plain one, whatever the method and the topology.

Without a GPU the very functions that would be captured are called one after another.
"""

from __future__ import annotations

import gc
import signal

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import basegraph as bg
from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.engines import checkpoint
from basegraph.engines.captured import graph as captured
from basegraph.engines.captured.engine import CapturedEngine
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.watcher import Watcher
from support.captured import NotCaptured, assert_same_losses, make, needs_gpu
from support.mixing import spec_for

SPECS = ["base:k=1", "base:k=2", "exponential", "one-peer-u-equidyn"]
CASES = sorted({(name, spec_for(name, spec)) for name in ALGORITHMS for spec in SPECS})


def fields_for(name, spec):
    has_momentum = "momentum" in ALGORITHMS[name].options
    return {
        **({"momentum": 0.5} if has_momentum else {"lr": 1e-3} if "adamw" in name else {}),
        "algorithm": name,
        "topology": spec,
        "augment": "crop+flip+erase",
        "local_steps": 1 if name.startswith("allreduce") else 2,
        "weight_decay": 0.01,
        "clip": 1.0,
        "allow_unstable": True,
    }


@pytest.mark.usefixtures("not_captured")
@pytest.mark.parametrize(("name", "spec"), CASES)
def test_the_captured_functions_are_the_plain_step(name, spec):
    fields = {**fields_for(name, spec), "device": "cpu", "compile": False}
    fast, plain = make(CapturedEngine, (0, 1), **fields), make(StackedEngine, (0, 1), **fields)
    for _ in range(fast.nodes.steps_per_epoch + 1):  # the last is of the second epoch
        fast.advance()
        plain.advance()
    assert torch.allclose(fast.nodes.x_nd, plain.nodes.x_nd, atol=2e-6)
    assert_same_losses(fast, plain)


class Inputs(TorchDispatchMode):
    """The storages that operations read or write and that none of them has made."""

    def __init__(self):
        super().__init__()
        self.made = {}
        self.found = {}

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        for storage in self.storages((args, kwargs)):
            if storage._cdata not in self.made:
                self.found[storage._cdata] = StorageWeakRef(storage)
        out = operation(*args, **(kwargs or {}))
        for storage in self.storages(out):
            if storage._cdata not in self.found:
                self.made[storage._cdata] = storage  # kept, so that no address is used again
        return out

    @staticmethod
    def storages(tree):
        return [t.untyped_storage() for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]


@pytest.mark.usefixtures("not_captured")
@pytest.mark.parametrize(("name", "spec"), CASES)
def test_what_a_graph_reads_lives_as_long_as_the_graph(monkeypatch, name, spec):
    """A graph knows addresses alone: what only the captured function held would be overwritten."""
    captures = []

    class Graph:
        """As torch's, it holds nothing that it reads."""

        def pool(self):
            return None

        def replay(self):
            """The numbers are of no interest."""

    def capture(step, body, source, target, pool):
        with Inputs() as inputs:
            step._step(body, source, target)
            step.counter.add_(1)
        captures.append(inputs.found)
        return Graph()

    monkeypatch.setattr(NotCaptured, "_capture", capture)
    fast = make(CapturedEngine, (0, 1), **fields_for(name, spec), device="cpu", compile=False)
    for _ in range(fast.nodes.steps_per_epoch + 1):  # the last is of the second epoch
        fast.advance()
    gc.collect()
    assert len(captures) in (2, 4)
    for found in captures:
        assert len(found) > len(fast.nodes.state)
        assert not any(storage.expired() for storage in found.values())


OUTER = ["dsgdm:nesterov=true", "allreduce-sgd:nesterov=true"]
INNER = {"algorithm": "adamw", "lr": 1e-3, "weight_decay": 0.1, "clip": 1.0}


@pytest.mark.usefixtures("not_captured")
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("local_steps", [1, 3])
def test_the_captured_functions_make_outer_steps(outer, local_steps):
    fields = {**INNER, "outer": outer, "local_steps": local_steps, "device": "cpu"}
    fields["compile"] = False
    fast, plain = make(CapturedEngine, (0, 1), **fields), make(StackedEngine, (0, 1), **fields)
    for _ in range(fast.nodes.steps_per_epoch + 4):
        fast.advance()
        plain.advance()
        for ours, theirs in zip(fast.nodes.state, plain.nodes.state, strict=True):
            assert torch.allclose(ours, theirs, atol=2e-6)
    assert torch.allclose(fast.nodes.x_nd, plain.nodes.x_nd, atol=2e-6)
    assert fast._graph.sets[0][-1] is fast._graph.sets[1][-1]  # held once


@needs_gpu
@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("outer", OUTER)
def test_captured_outer_steps_are_the_plain_ones(outer, compile):
    fields = {**INNER, "outer": outer, "local_steps": 3, "precision": "float32", "compile": compile}
    fast, plain = make(device="cuda", **fields), make(device="cpu", **fields)
    assert isinstance(fast, CapturedEngine)
    for _ in range(fast.nodes.steps_per_epoch + 4):
        fast.advance()
        plain.advance()
    for ours, theirs in zip(
        (fast.nodes.x_nd, *fast.nodes.state), (plain.nodes.x_nd, *plain.nodes.state), strict=True
    ):
        assert torch.allclose(ours.cpu(), theirs, atol=5e-6)


@needs_gpu
@pytest.mark.parametrize(("name", "spec"), CASES)
def test_captured_step_is_the_plain_step(name, spec):
    fields = {**fields_for(name, spec), "compile": False, "precision": "float32"}
    fast, plain = make(device="cuda", **fields), make(device="cpu", **fields)
    assert isinstance(fast, CapturedEngine)
    for _ in range(fast.nodes.steps_per_epoch + 1):
        fast.advance()
        plain.advance()
    assert torch.allclose(fast.nodes.x_nd.cpu(), plain.nodes.x_nd, atol=2e-6)
    assert_same_losses(fast, plain)


@needs_gpu
@pytest.mark.parametrize("name", ["dsgdm", "adamw", "qg-dsgdm", "d2"])
@pytest.mark.parametrize("spec", ["base:k=1", "exponential"])
def test_compiled_step_is_the_plain_step(spec, name):
    fields = {**fields_for(name, spec), "precision": "float32"}
    fast, plain = (make(seeds=(0, 1), device=device, **fields) for device in ("cuda", "cpu"))
    assert isinstance(fast, CapturedEngine)
    for _ in range(fast.nodes.steps_per_epoch + 1):
        fast.advance()
        plain.advance()
    assert torch.allclose(fast.nodes.x_nd.cpu(), plain.nodes.x_nd, atol=2e-6)
    for ours, theirs in zip(fast.runs, plain.runs, strict=True):
        everything = ours.problem.evaluated_last
        accuracy = ours.evaluate(everything)["test"]
        assert accuracy == pytest.approx(theirs.evaluate(everything)["test"])


@needs_gpu
@pytest.mark.parametrize("name", ["dsgdm", "qg-dsgdm"])
def test_engines_one_after_another_are_the_plain_ones(name):
    """Nothing that an earlier engine of the process has left disturbs a later one, freed or not."""
    fields = {**fields_for(name, "exponential"), "precision": "float32"}
    kept = []
    for number, seeds in enumerate([(0, 1, 2), (1, 2), (3,), (1, 2)]):
        fast, plain = (make(seeds=seeds, device=device, **fields) for device in ("cuda", "cpu"))
        for _ in range(4 * fast.nodes.steps_per_epoch):
            fast.advance()
            plain.advance()
            if fast.step % fast.nodes.steps_per_epoch == 0:
                for run in fast.runs:
                    run.evaluate(run.problem.evaluated_last)
        assert torch.allclose(fast.nodes.x_nd.cpu(), plain.nodes.x_nd, atol=1e-5), number
        if number == 1:
            kept.append(fast)
    fast.advance()
    kept[0].advance()  # its graph is as it was, though others were captured and freed since
    assert all(bool(engine.nodes.x_nd.isfinite().all()) for engine in (fast, *kept))


def assert_resumes_within_an_epoch(config, folder):
    """Stopped in the middle of an epoch; then it goes on as if it had not been."""
    whole = train(config, folder / "whole")

    def stop_halfway(step, total, loss):
        if step == total // 2 + 1:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(bg.BasegraphError, match="SIGTERM after step"):
        train(config, folder / "cut", watcher=Watcher(stepped=stop_halfway))
    facts = checkpoint.load(folder / "cut" / "checkpoint.safetensors")[1]
    assert 0 < facts["step"] < config.epochs * facts["steps_per_epoch"]
    assert facts["step"] % facts["steps_per_epoch"]
    resumed = train(config, folder / "cut", resume=True)
    assert [row["epoch"] for row in resumed] == list(range(1, config.epochs + 1))
    for row, expected in zip(resumed, whole, strict=True):
        assert {**row, "seconds": 0} == pytest.approx({**expected, "seconds": 0}, rel=1e-4)
    models = [
        checkpoint.load(folder / run / "checkpoint.safetensors")[0]["x"] for run in ("cut", "whole")
    ]
    assert torch.allclose(*models, atol=2e-6)


RESUMED = {"nodes": 5, "epochs": 6, "evaluate_every": 1, "compile": False}


@pytest.mark.usefixtures("not_captured")
def test_the_captured_functions_resume(monkeypatch, tmp_path):
    monkeypatch.setitem(train.__globals__, "single_process_engine", CapturedEngine)
    assert_resumes_within_an_epoch(RunConfig(**RESUMED, device="cpu"), tmp_path)


@needs_gpu
def test_a_captured_run_resumes(tmp_path):
    config = RunConfig(**RESUMED, device="cuda", precision="float32")
    assert_resumes_within_an_epoch(config, tmp_path)


def test_what_does_not_compile_goes_on_with_a_warning(monkeypatch):
    def fails(*arguments, **options):
        def compiled(*arguments):
            raise RuntimeError("\n\n  no compiler here\nand more") from KeyError("triton")

        return compiled

    monkeypatch.setattr(torch, "compile", fails)
    double = captured.Compiled(lambda x: 2 * x)
    reason = "RuntimeError: no compiler here and more, caused by KeyError: 'triton'$"
    with pytest.warns(RuntimeWarning, match=f"goes on without it, slower: {reason}"):
        assert double(3) == 6
    assert double(4) == 8


def test_any_number_of_engines_compile_their_own(monkeypatch):
    """torch compiles one code object eight times at most; engines make theirs from one text."""
    compiles = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda function, **options: compiles(function, backend="eager")
    )
    for number in range(12):
        add = captured.Compiled(lambda x, number=number: x + number)
        assert add(torch.zeros(1)) == number
        assert add.works
