"""Training a transformer: the engines, evaluation, memory and refusals."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed as dist

import basegraph as bg
from basegraph.engines.distributed.engine import DistributedEngine
from basegraph.engines.distributed.membership.fixed import FixedMembership
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.models.gpt import GPT, next_token_loss
from basegraph.training import memory
from basegraph.training.modules import build_model
from basegraph.training.problem import Problem

CONFIG = bg.RunConfig(
    nodes=5, model="gpt-tiny:layers=1,width=16", epochs=4, batch=4, lr=0.2, alpha=1.0, warmup=0,
    evaluate_every=2, validation=0.0, precision="float32", device="cpu",
)  # fmt: skip


def counting(vocabulary=11):
    """Sequences whose next token is the one before plus one, modulo eleven."""

    def split(seed, count):
        first = np.random.default_rng(seed).integers(0, 11, size=(count, 1))
        whole = (first + np.arange(9)) % 11
        return bg.Split(whole[:, :-1], whole[:, 1:])

    return bg.Dataset("counting", split(0, 120), split(1, 30), vocabulary=vocabulary)


def plain_losses(problem, x_nd, split):
    inputs, targets = torch.as_tensor(split.inputs), torch.as_tensor(split.targets)
    with torch.no_grad():
        each = [next_token_loss(problem.model.forward(x_d, inputs), targets) for x_d in x_nd]
    return torch.stack(each)


@pytest.mark.parametrize("n", [3, 7, 12])
def test_nodes_learn_to_count(tmp_path, n):
    rows = bg.train(replace(CONFIG, nodes=n), tmp_path / "run", dataset=counting())
    assert rows[-1]["test_loss"] < 0.8 * np.log(11)
    assert rows[-1]["test_loss"] <= rows[-1]["test_loss_worst"]


def test_evaluation_is_the_mean_over_all_tokens(monkeypatch):
    """In pieces of one or of several windows, of every node and of the average."""
    data = counting()
    problem = Problem(CONFIG, data, build_model(CONFIG, data))
    engine = StackedEngine(data, [problem])
    for _ in range(3):
        engine.advance()
    (run,) = engine.runs
    expected = plain_losses(problem, run.x_nd, data.test)
    averaged = plain_losses(problem, run.x_nd.mean(dim=0, keepdim=True), data.test)
    for tokens in (1, 8 * 6 * 7, 10**6):
        monkeypatch.setattr("basegraph.engines.evaluation.CHUNK", tokens)
        score = run.evaluate(problem.evaluated_last)["test"]
        assert score.mean == pytest.approx(float(expected.mean()), rel=1e-6)
        assert score.worst == pytest.approx(float(expected.max()), rel=1e-6)
        assert score.averaged == pytest.approx(float(averaged), rel=1e-6)


def test_one_process_per_node_gives_the_same_numbers():
    """With a single node: both engines begin with the same model and see the same windows."""
    data, config = counting(), replace(CONFIG, nodes=1)
    problems = [Problem(config, data, build_model(config, data)) for _ in range(2)]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        membership = FixedMembership(timeout=60.0, device=torch.device("cpu"))
        stacked = StackedEngine(data, problems[:1])
        engine = DistributedEngine(data, problems[1], membership)
        for _ in range(3):
            stacked.advance()
            engine.advance()
        scores = [e.evaluate(problems[0].evaluated_last)["test"] for e in (*stacked.runs, engine)]
        assert scores[0] == pytest.approx(scores[1])
        torch.testing.assert_close(stacked.nodes.x_nd[0], engine.x_d)
    finally:
        dist.destroy_process_group()


def test_a_dataset_that_does_not_say_its_vocabulary_has_that_of_its_largest_token():
    module = build_model(CONFIG, counting(vocabulary=None))
    assert isinstance(module, GPT)
    assert module.vocabulary == 11


def test_tokens_that_a_model_does_not_have_are_refused(tmp_path):
    module = GPT(10, layers=1, width=8, heads=1, context=8)
    with pytest.raises(bg.InvalidArgument, match="vocabulary=10: the dataset has a token 10"):
        bg.train(CONFIG, tmp_path / "run", dataset=counting(), module=module)


@pytest.mark.parametrize(
    ("nodes", "windows", "measured"), [(8, 16, 16.9), (8, 4, 9.9), (25, 5, 30.4)]
)
def test_memory_on_a_gpu_is_hardly_overestimated(nodes, windows, measured, monkeypatch):
    """GiB at the peak as measured on an H200, of windows of 1024 tokens."""
    monkeypatch.setattr(memory, "by_hand", lambda module, device, precision: True)
    config = bg.RunConfig(
        nodes=nodes, batch=windows, model="gpt-20m", algorithm="adamw", precision="bf16"
    )
    some = np.zeros((1, 1024), dtype=np.int64)
    data = bg.Dataset("zeros", bg.Split(some, some), bg.Split(some, some), vocabulary=32_000)
    model = bg.models.FlatModel(build_model(config, data))
    need = memory.bytes_of_run(config, model, data, torch.device("cuda"))
    assert measured < need / 2**30 < 1.1 * measured


def test_memory_is_estimated_before_it_is_taken(tmp_path, monkeypatch):
    """Of the loss not all logits are counted, but a chunk of them."""
    data = counting()
    config = replace(CONFIG, model="gpt-20m:layers=1", nodes=4, batch=2**12)
    module = build_model(config, data)
    model, cpu = bg.models.FlatModel(module), torch.device("cpu")
    need = memory.bytes_of_run(config, model, data, cpu)
    tokens, logits = 4 * 2**12 * 8, 4 * 2**12 * 8 * 32_000
    assert 4 * tokens * 13 * 320 < need < 4 * logits
    assert memory.bytes_of_run(replace(config, precision="bf16"), model, data, cpu) < need
    monkeypatch.setattr(memory, "free_memory", lambda device: need // 2)
    with pytest.raises(memory.NotEnoughMemory, match="gpt-20m:layers=1 with 4 nodes"):
        bg.train(config, tmp_path / "run", dataset=data)
