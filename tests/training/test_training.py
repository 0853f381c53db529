"""Training: every algorithm learns, divergence is named, models that do not fit are refused."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import basegraph as bg
from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.data.catalog import load
from basegraph.data.dataset import Dataset
from basegraph.models.networks import build
from basegraph.plots.learning import labels
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem
from basegraph.training.run import Diverged
from support.mixing import spec_for

MOMENTUM = {"dsgdm", "dsgdm-ceca", "qg-dsgdm", "momentum-tracking", "decentlam", "allreduce-sgd"}
SHORT = {"nodes": 5, "epochs": 4, "batch": 16, "evaluate_every": 1}


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_trains(name, tmp_path):
    damping = {"damping": "auto"} if name == "d2" else {}
    spec = "ring" if name in ("exact-diffusion", "decentlam") else spec_for(name)
    slow = {"momentum": 0.0, "lr": 0.2} if name not in MOMENTUM else {"lr": 0.05}
    if name == "decentlam":
        slow["lr"] = 0.01
    if "adamw" in name:
        slow = {"lr": 0.003, "weight_decay": 0.1}
    config = RunConfig(
        algorithm=name, topology=spec, nodes=6, epochs=25, alpha=1.0, **slow, **damping
    )
    rows = train(config, tmp_path / "run")
    assert rows[-1]["test_accuracy"] > 0.85
    assert rows[-1]["epoch"] == 25
    assert rows[-1]["consensus_distance"] < 5


def test_divergence_names_step_node_and_checkpoint(tmp_path):
    config = RunConfig(lr=1e4, **{**SHORT, "epochs": 20})
    with pytest.raises(Diverged, match=r"loss of node \d is (nan|inf) at step \d+; last good"):
        train(config, tmp_path / "run")


def test_models_that_blow_up_are_not_kept(tmp_path):
    config = RunConfig(lr=1e40, **{**SHORT, "batch": 400, "epochs": 1, "warmup": 0})
    with pytest.raises(Diverged, match=r"at step \d+; last good checkpoint: none yet"):
        train(config, tmp_path / "run")


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 7)), r"gives \(7,\) instead of 10 outputs"),
        (nn.Sequential(nn.Flatten(), nn.Linear(63, 10)), r"does not take images \(1, 8, 8\)"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).double(), "does not take images"),
    ],
)
def test_models_that_do_not_fit_are_refused(module, complaint, tmp_path):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        train(RunConfig(**SHORT), tmp_path / "run", module=module)
    assert not (tmp_path / "run").exists()


def test_curves_of_different_experiments_are_not_merged():
    base = vars(RunConfig())
    assert len(set(labels([base, {**base, "seed": 1}]))) == 1
    assert len(set(labels([base, {**base, "lr": 0.2}]))) == 2
    assert labels([base, {**base, "lr": 0.2}])[1] == "base:k=1, dsgdm, lr=0.2"


def test_real_mnist_learns(shared_data, tmp_path):
    """A few steps of LeNet on the official files."""
    dataset = load("mnist", shared_data)
    small = Dataset(
        "mnist",
        dataset.train.take(np.arange(2000)),
        dataset.test.take(np.arange(500)),
        10,
    )
    config = RunConfig(
        dataset="mnist", model="lenet", nodes=4, epochs=6, alpha=10.0, lr=0.05, augment="none"
    )
    rows = train(config, tmp_path / "run", dataset=small)
    assert rows[-1]["test_accuracy"] > 0.85


def test_the_published_schedule_and_inputs_are_used(tmp_path):
    """Per epoch with a floor; another normalization and another padding are other gradients."""
    config = {
        "nodes": 3, "epochs": 20, "epoch_steps": 2, "lr": 0.1, "lr_min": 0.01,
        "lr_changes": "epoch", "warmup_start": 0.02, "augment": "crop", "evaluate_every": 20,
    }  # fmt: skip
    dataset = load("digits")
    module = build("mlp", dataset.shape, dataset.classes, seed=0)
    problem = Problem(RunConfig(**config), dataset, module)
    rates = [problem.learning_rate(step) for step in range(40)]
    assert rates[:2] == [0.02, 0.02]
    assert rates[2:4] == pytest.approx([0.06, 0.06])
    assert max(rates) == rates[4] == 0.1
    assert rates[0::2] == rates[1::2]
    assert 0.01 < rates[-1] < 0.011
    losses = set()
    for more in ({}, {"normalize": "half"}, {"normalize": "half", "padding": "black"}):
        rows = train(RunConfig(**config, **more), tmp_path / str(len(losses)))
        losses.add(rows[-1]["train_loss"])
    assert len(losses) == 3
