"""What a run needs is estimated before the work: too much is refused at once."""

from __future__ import annotations

import pytest
import torch

import basegraph as bg
from basegraph.data.catalog import load
from basegraph.engines.stacked.nodes import StackedNodes
from basegraph.models.flat import FlatModel
from basegraph.models.networks import build
from basegraph.training import estimate, memory, problem
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.datasets import load_dataset
from basegraph.training.modules import build_model, model_form
from basegraph.training.problem import Problem
from basegraph.training.watcher import Watcher


@pytest.mark.parametrize(
    ("fields", "free", "complaint"),
    [
        ({"nodes": 10**7}, 2**40, "nodes=10000000: must be at most the 1295 training samples"),
        ({"nodes": 900, "validation": 0.5}, 2**40, "nodes=900: must be at most the 719 training"),
        ({"nodes": 1000}, 2**20, "mlp with 1000 nodes and batch 32 needs about .* GiB"),
    ],
)
def test_refused_before_topology_and_split_are_built(
    fields, free, complaint, monkeypatch, tmp_path
):
    def built(*arguments):
        raise AssertionError("built before the size was looked at")

    monkeypatch.setattr(problem, "topology", built)
    monkeypatch.setattr(problem, "split", built)
    monkeypatch.setattr(memory, "free_memory", lambda device: free)
    with pytest.raises(bg.BasegraphError, match=complaint):
        train(RunConfig(epochs=3, **fields), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_earlier_runs_have_left_on_a_gpu_counts_as_free(monkeypatch):
    class Graph:
        """Of an earlier run: refers to itself, so that only the collector ends it."""

        def __init__(self):
            self.myself = self

        def __del__(self):
            gpu["kept by torch"] += 30

    def give_back():
        gpu["free"] += gpu["kept by torch"]

    gpu = {"free": 8, "kept by torch": 0}
    monkeypatch.setattr(torch.cuda, "empty_cache", give_back)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (gpu["free"], 100))
    Graph()
    assert memory.free_memory(torch.device("cuda")) == 38


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU keeps what was freed")
def test_what_torch_keeps_of_a_gpu_counts_as_free():
    device = torch.device("cuda")
    before = memory.free_memory(device)
    torch.empty(2**30, dtype=torch.uint8, device=device)
    assert torch.cuda.mem_get_info(device)[0] <= before - 2**30
    assert memory.free_memory(device) > before - 2**29


@pytest.mark.parametrize("seconds", [0.0, 3600.0])
def test_long_runs_say_how_long_before_they_begin(seconds, monkeypatch, tmp_path):
    lines = []

    def stepped(step, total, loss):
        lines.append("step")

    monkeypatch.setattr(estimate, "seconds_of_gradients", lambda nodes: seconds)
    config = RunConfig(nodes=3, epochs=1, batch=64, evaluate_every=1, device="cpu")
    train(config, tmp_path / "run", watcher=Watcher(stepped=stepped, noted=lines.append))
    said = ["the steps will take about 7.0 hours, evaluations not counted"] if seconds else []
    assert lines == [*said, *["step"] * 7]


def test_the_time_of_gradients_is_measured():
    dataset = load("digits")
    config = RunConfig(nodes=3, epochs=1)
    module = build("mlp", dataset.shape, 10, 0)
    nodes = StackedNodes(dataset, [Problem(config, dataset, module)])
    before = nodes.x_nd.clone()
    assert estimate.seconds_of_gradients(nodes) > 0
    assert torch.equal(nodes.x_nd, before)


@pytest.mark.parametrize(
    ("fields", "vectors"),
    [
        ({"algorithm": "dsgd"}, (3, 5)),
        ({"algorithm": "dsgdm"}, (4, 8)),
        ({"algorithm": "sgp"}, (3, 5)),
        ({"algorithm": "adamw"}, (5, 11)),
        ({"algorithm": "adamw", "outer": "dsgdm"}, (7, 15)),
    ],
)
def test_memory_counts_what_a_method_keeps(fields, vectors):
    """x, the state, gradients and what a step moves to; captured, x and the state twice, but for
    what local steps leave as it is, and a copy while the step is tried out."""
    digits, config = load("digits"), RunConfig(nodes=1, **fields)
    model = FlatModel(build("mlp", digits.shape, 10, 0))
    on_cpu, captured = (
        memory.bytes_of_run(config, model, digits, torch.device(device))
        for device in ("cpu", "cuda")
    )
    activations = on_cpu - vectors[0] * 4 * model.size
    assert 0 < activations < 4 * model.size * config.batch
    assert captured - on_cpu == (vectors[1] - vectors[0]) * 4 * model.size


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("gpt:layers=4,width=8192,heads=8,context=64", "needs about .* GiB"),
        ("gpt:layers=1000,width=320000,heads=5,context=64", "has 1e\\+15 parameters; at most 2"),
        ("gpt:layers=100000,width=8,heads=2,context=64", "layers=100000: must be at most 10000"),
        ("gpt:width=64,heads=2,context=64,vocabulary=200000000000", "at most 2\\^40"),
    ],
)
def test_large_models_are_refused_before_they_are_built(model, complaint, monkeypatch, tmp_path):
    def drawn(*arguments, **options):
        raise AssertionError("drawn before the size was looked at")

    monkeypatch.setattr(memory, "free_memory", lambda device: 2**30)
    monkeypatch.setattr("basegraph.training._train.build_model", drawn)
    with pytest.raises(bg.BasegraphError, match=complaint):
        train(RunConfig(nodes=2, dataset="text", model=model), tmp_path / "run")


def test_the_form_of_a_model_is_as_large_as_the_model():
    for config in (
        RunConfig(dataset="text", model="gpt-tiny"),
        RunConfig(dataset="digits", model="mlp"),
        RunConfig(dataset="digits", model="resnet18", batch=3),
    ):
        dataset = load_dataset(config)
        form, built = model_form(config, dataset), FlatModel(build_model(config, dataset))
        device = torch.device("cpu")
        assert (form.names, form.shapes) == (built.names, built.shapes)
        sizes = [memory.bytes_of_run(config, each, dataset, device) for each in (form, built)]
        assert sizes[0] == sizes[1] > 0


def test_nodes_that_never_communicate_are_told(tmp_path):
    lines = []
    config = RunConfig(nodes=2, epochs=1, epoch_steps=3, local_steps=4)
    train(config, tmp_path / "run", watcher=Watcher(noted=lines.append))
    assert lines == ["nodes never communicate: local_steps is 4, and the run has 3 steps"]
