"""What `basegraph.engines.contract` promises, held against every engine."""

from __future__ import annotations

import os
import signal

import pytest
import torch
import torch.distributed as dist

from basegraph.data.catalog import load
from basegraph.engines.captured.engine import CapturedEngine
from basegraph.engines.distributed.engine import DistributedEngine
from basegraph.engines.distributed.membership.fixed import FixedMembership
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.engines.stacked.losses import PENDING
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem

DIGITS = load("digits")
NO_GPU = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU: the captured engine is not held to the contract"
)
ENGINES = ["stacked", pytest.param("captured", marks=NO_GPU), "distributed"]


@pytest.fixture(scope="module")
def _one_process():
    """This process as the only node."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(params=ENGINES)
def make(request):
    """A function that makes an engine, with as many runs as it takes."""
    if request.param == "distributed":
        request.getfixturevalue("_one_process")
    return lambda **fields: made(request.param, **fields)


def made(kind, **fields):
    device = "cuda" if kind == "captured" else "cpu"
    nodes, seeds = (1, [0]) if kind == "distributed" else (4, [0, 1])
    settings = {
        "algorithm": "gradient-tracking",
        "nodes": nodes,
        "device": device,
        "compile": False,
        "batch": 64,
        "epochs": 20,
        "evaluate_samples": 40,
        **fields,
    }
    configs = [RunConfig(**settings, seed=seed) for seed in seeds]
    problems = [Problem(c, DIGITS, build("mlp", DIGITS.shape, 10, c.seed)) for c in configs]
    if kind == "distributed":
        membership = FixedMembership(timeout=60.0, device=torch.device(device))
        return DistributedEngine(DIGITS, problems[0], membership)
    return {"stacked": StackedEngine, "captured": CapturedEngine}[kind](DIGITS, problems)


def advance(engine, steps):
    for _ in range(steps):
        engine.advance()


def saved(run):
    return {name: tensor.detach().cpu().clone() for name, tensor in run.tensors().items()}


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name])


def test_a_step_is_counted_for_every_run(make):
    engine = make()
    assert engine.step == 0
    advance(engine, 3)
    assert engine.step == 3
    assert {run.step for run in engine.runs} == {3}


def test_gradients_are_clipped_node_by_node(make):
    """One step of SGD without a message, against `torch.nn.utils.clip_grad_norm_`."""
    alone = {"algorithm": "dsgd", "local_steps": 100, "lr": 0.5, "schedule": "constant"}
    gradients = {}
    for clip in (0.0, 0.3):
        engine = make(**alone, warmup=0, clip=clip)
        before = [saved(run)["x"] for run in engine.runs]
        engine.advance()
        after = [saved(run)["x"] for run in engine.runs]
        gradients[clip] = (torch.cat(before) - torch.cat(after)) / 0.5
    norms = gradients[0.0].norm(dim=1)
    assert norms.max() > 0.3
    for free, clipped in zip(gradients[0.0], gradients[0.3], strict=True):
        parameter = torch.nn.Parameter(torch.zeros_like(free))
        parameter.grad = free.clone()
        torch.nn.utils.clip_grad_norm_([parameter], 0.3)
        assert torch.allclose(clipped, parameter.grad, rtol=0, atol=1e-6)
        assert not torch.allclose(clipped, free, rtol=0, atol=1e-3)


def test_losses_are_each_runs_own_and_given_once(make):
    engine = make()
    advance(engine, 3)
    losses = engine.losses()
    shape = (3, engine.runs[0].problem.config.nodes)
    assert [tuple(part.shape) for part in losses] == [shape] * len(engine.runs)
    assert all(torch.isfinite(part).all() for part in losses)
    assert all(0 < float(part.min()) < 10 for part in losses)
    if len(losses) > 1:
        assert not torch.equal(*losses)
    assert [len(part) for part in engine.losses()] == [0] * len(engine.runs)
    advance(engine, 2)
    assert [len(part) for part in engine.losses()] == [2] * len(engine.runs)


def test_losses_do_not_stay_on_the_device_for_ever(make):
    engine = make()
    assert not engine.losses_due([])
    for _ in range(PENDING):
        engine.advance()
        if engine.losses_due([]):
            break
    assert engine.losses_due([])
    engine.losses()
    assert not engine.losses_due([])


def test_signals_are_agreed_on(make):
    engine = make()
    engine.advance()
    assert engine.agree_on_signals([]) == []
    assert engine.agree_on_signals([signal.SIGTERM]) == [signal.SIGTERM]


def test_accuracies_are_of_what_was_selected(make):
    engine = make()
    advance(engine, 5)
    for run in engine.runs:
        before = saved(run)
        for selection in (run.problem.evaluated, run.problem.evaluated_last):
            accuracies = run.evaluate(selection)
            assert accuracies.keys() == selection.sets.keys() == {"test", "validation"}
            for name, accuracy in accuracies.items():
                count = len(selection.sets[name])
                answers = accuracy.averaged * count
                assert answers == pytest.approx(round(answers))
                assert 0 <= accuracy.worst <= accuracy.mean <= 1
        assert_same(saved(run), before)


def test_distance_is_that_of_the_models(make):
    engine = make()
    assert [run.consensus_distance() for run in engine.runs] == [0.0] * len(engine.runs)
    advance(engine, 5)
    for run in engine.runs:
        x_nd = saved(run)["x"].double()
        expected = (x_nd - x_nd.mean(dim=0)).square().sum() / len(x_nd)
        assert run.consensus_distance() == pytest.approx(float(expected), rel=1e-6)
        assert (run.consensus_distance() > 0) == (len(x_nd) > 1)


def test_a_run_continues_from_its_tensors(make):
    """In the same engine and in a fresh one, in the middle of an epoch."""
    engine = make()
    advance(engine, 3)
    kept = [saved(run) for run in engine.runs]
    advance(engine, 4)
    expected = [saved(run) for run in engine.runs]
    for one in (engine, make()):
        for run, tensors in zip(one.runs, kept, strict=True):
            run.restore(tensors, 3)
        assert one.step == 3
        advance(one, 4)
        for run, tensors in zip(one.runs, expected, strict=True):
            assert_same(saved(run), tensors)


@pytest.mark.parametrize("wire", ["int8", "topk:0.1", "randk:0.1"])
def test_a_run_continues_from_what_its_wire_knows(wire):
    """Bit for bit, residues and what neighbors know included."""
    fields = {"algorithm": "dsgdm", "topology": "base:k=1", "wire": wire}
    engine, other = made("stacked", **fields), made("stacked", **fields)
    advance(engine, 3)
    for run, twin in zip(engine.runs, other.runs, strict=True):
        twin.restore(saved(run), 3)
    for one in (engine, other):
        advance(one, 4)
    for run, twin in zip(engine.runs, other.runs, strict=True):
        ours, theirs = saved(run), saved(twin)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def test_a_view_is_of_one_run(make):
    engine = make()
    if len(engine.runs) == 1:
        pytest.skip("an engine of a single run")
    advance(engine, 2)
    first, second = engine.runs
    before = saved(second)
    first.restore({name: torch.zeros_like(t) for name, t in saved(first).items()}, 2)
    assert first.consensus_distance() == 0
    assert_same(saved(second), before)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_named(make, value):
    engine = make()
    engine.advance()
    run = engine.runs[-1]
    assert run.first_nonfinite() is None
    tensors = saved(run)
    node = len(tensors["x"]) - 1
    tensors["x"][node, -1] = value
    run.restore(tensors, 1)
    assert run.first_nonfinite() == ("x", node)


def test_the_hardware_is_named(make):
    for run in make().runs:
        assert run.hardware.startswith(("cpu", "NVIDIA", "AMD"))
