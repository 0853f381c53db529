"""Runs on modules and datasets passed from Python: what they record and how they resume."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from torch import nn

import basegraph as bg
from basegraph.data.catalog import load
from basegraph.data.dataset import DataError, Dataset, Split
from basegraph.models.flat import FlatModel
from basegraph.models.gradients import Gradients
from basegraph.storage._provenance import provenance
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.config_files import read_toml
from basegraph.training.watcher import Watcher

SHORT = RunConfig(nodes=4, epochs=4, batch=8, alpha=1.0, lr=0.1, evaluate_every=2)


class Small(nn.Sequential):
    """A model of two classes on 4x4 images."""

    def __init__(self):
        super().__init__(
            nn.Flatten(), nn.Linear(16, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2)
        )


class Other(Small):
    """The same form under another name."""


def blobs():
    """80 images of two classes, dark and bright."""
    draws = np.random.default_rng(0)
    labels = np.arange(80) % 2
    images = draws.integers(0, 40, (80, 1, 4, 4)) + 150 * labels[:, None, None, None]
    split = Split(images.astype(np.uint8), labels)
    return Dataset("blobs", split, split, 2)


def without_time(rows):
    return [{**row, "seconds": 0} for row in rows]


def test_any_module_and_dataset(tmp_path):
    config = RunConfig(nodes=4, epochs=20, batch=8, alpha=1.0, lr=0.1)
    rows = train(config, tmp_path / "r", dataset=blobs(), module=Small())
    assert rows[-1]["test_accuracy"] == 1.0


def test_a_run_records_what_ran(tmp_path):
    train(SHORT, tmp_path / "run", dataset=blobs(), module=Small())
    recorded = read_toml(tmp_path / "run" / "config.toml")
    assert (recorded["dataset"], recorded["model"]) == ("own: blobs", "own: Small")
    origin = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert origin["data"] == "blobs: 80 training, 80 test samples"
    assert origin["torch"] == torch.__version__
    assert ("gpu" in origin) == torch.cuda.is_available()
    assert not RunConfig(**recorded).augmentations()


def test_a_dataset_of_the_catalogue_keeps_its_name(tmp_path):
    train(RunConfig(nodes=4, epochs=1, dataset="mnist"), tmp_path / "run", dataset=load("digits"))
    assert read_toml(tmp_path / "run" / "config.toml")["dataset"] == "digits"


@pytest.mark.parametrize("from_file", [False, True])
def test_resumes_with_the_same_module_and_dataset(from_file, tmp_path):
    torch.manual_seed(0)
    module = Small()
    whole = train(SHORT, tmp_path / "whole", dataset=blobs(), module=module)

    def stop(row):
        raise KeyboardInterrupt

    cut = tmp_path / "cut"
    with pytest.raises(KeyboardInterrupt):
        train(SHORT, cut, dataset=blobs(), module=module, watcher=Watcher(evaluated=stop))
    config = RunConfig(**read_toml(cut / "config.toml")) if from_file else SHORT
    rows = train(config, cut, resume=True, dataset=blobs(), module=Small())
    assert without_time(rows) == without_time(whole)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "dataset='own: blobs': was passed from Python: pass it again"),
        ({"module": Small()}, "dataset='own: blobs': was passed from Python: pass it again"),
        ({"dataset": blobs()}, "model='own: Small': was passed from Python: pass it again"),
        (
            {"dataset": blobs(), "module": Other()},
            "model='own: Other': differs from the run that is resumed, which has",
        ),
    ],
)
def test_does_not_resume_without_them(given, complaint, tmp_path):
    train(SHORT, tmp_path / "run", dataset=blobs(), module=Small())
    config = RunConfig(**read_toml(tmp_path / "run" / "config.toml"))
    with pytest.raises(bg.InvalidArgument, match=complaint):
        train(config, tmp_path / "run", resume=True, **given)


class Tied(nn.Module):
    """Two layers with one weight; the activation decides whether there is a stacked form."""

    def __init__(self, activation):
        super().__init__()
        self.flatten, self.activation = nn.Flatten(), activation
        self.one, self.two, self.last = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 2)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.last(self.activation(self.two(self.activation(self.one(self.flatten(x))))))


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.GELU()], ids=["stacked", "vmap"])
def test_tied_weights_are_one_parameter(activation, tmp_path):
    torch.manual_seed(0)
    tied = Tied(activation)
    train(SHORT, tmp_path / "run", dataset=blobs(), module=tied)
    facts = json.loads((tmp_path / "run" / "provenance.json").read_text())["measured"]
    assert facts["parameters"] == 16 * 16 + 2 * 16 + 16 * 2 + 2
    model = FlatModel(tied)
    x_nd = model.initial().repeat(2, 1)
    samples, labels = torch.randn(2, 5, 1, 4, 4), torch.tensor([[0, 1, 0, 1, 1]] * 2)
    _, gradients = Gradients(model, nn.functional.cross_entropy)(x_nd, samples, labels)
    for node in range(2):
        tied.zero_grad()
        nn.functional.cross_entropy(tied(samples[node]), labels[node]).backward()
        by_hand = torch.cat([p.grad.reshape(-1) for p in tied.parameters()])
        assert torch.allclose(gradients[node], by_hand, atol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float64, torch.tensor])
def test_floating_point_images_give_what_eight_bits_give(kind, tmp_path):
    torch.manual_seed(0)
    whole, module = blobs(), Small()
    images = (whole.train.inputs / np.float32(255)).astype(np.float32)
    images = kind(images) if kind is torch.tensor else images.astype(kind)
    split = Split(images, whole.train.targets.astype(np.int32))
    rows = train(SHORT, tmp_path / "float", dataset=Dataset("b", split, split, 2), module=module)
    expected = train(SHORT, tmp_path / "int", dataset=whole, module=module)
    for mine, theirs in zip(rows, expected, strict=True):
        assert mine["train_loss"] == pytest.approx(theirs["train_loss"], rel=1e-4)
        assert mine["test_accuracy"] == theirs["test_accuracy"]


@pytest.mark.parametrize(
    ("images", "labels", "complaint"),
    [
        (np.zeros((2, 1, 4, 4), np.int64), [0, 1], "images must be uint8 or floating point, not"),
        (np.full((2, 1, 4, 4), np.nan), [0, 1], "inputs must be finite"),
        (np.zeros((2, 1, 4, 4)), [0], r"2 inputs of shape \(1, 4, 4\) do not match 1 targets"),
    ],
)
def test_images_and_labels_of_other_types_are_refused(images, labels, complaint):
    with pytest.raises(DataError, match=complaint):
        Split(images, labels)


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("somewhere/bin/basegraph", "basegraph --nodes 5"),
        ("src/basegraph/__main__.py", "basegraph --nodes 5"),
        ("examples/train_on_digits.py", "python train_on_digits.py --nodes 5"),
    ],
)
def test_the_command_is_the_one_that_ran(program, command, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program, "--nodes", "5"])
    assert provenance("")["command"] == command


def test_torch_is_not_loaded_to_be_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    assert "torch" not in provenance("")
    assert "torch" not in sys.modules
