"""Runs saved before `split_order` existed keep the split they began with, or are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import basegraph as bg
from basegraph.data.catalog import load
from basegraph.engines import checkpoint
from basegraph.experiments.grid import expand
from basegraph.experiments.sweep import SweepFolder
from basegraph.models.networks import build
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem
from basegraph.training.status import read_status
from basegraph.training.watcher import Watcher
from support.cli import ok, run_here

SHORT = {"nodes": 5, "epochs": 2, "batch": 16, "evaluate_every": 1}


def forget_the_field(folder):
    """Make a run's folder what an earlier version has written."""
    config = folder / "config.toml"
    config.write_text(re.sub("split_order.*\n", "", config.read_text()))
    path = folder / "checkpoint.safetensors"
    if path.exists():
        tensors, facts = checkpoint.load(path)
        del facts["config"]["split_order"]
        checkpoint.save(path, tensors, facts)


@pytest.fixture
def saved_earlier(tmp_path):
    """The folder of a run that an earlier version was stopped in after one of two epochs."""

    def stop(row):
        raise KeyboardInterrupt

    folder = tmp_path / "earlier"
    with pytest.raises(KeyboardInterrupt):
        train(RunConfig(**SHORT, split_order="by-class"), folder, watcher=Watcher(evaluated=stop))
    forget_the_field(folder)
    return folder


def test_the_field_decides_which_samples_a_node_sees():
    digits = load("digits")
    shuffled, by_class = (
        Problem(RunConfig(**SHORT, **order), digits, build("mlp", digits.shape, 10, 0))
        for order in ({}, {"split_order": "by-class"})
    )
    assert shuffled.heterogeneity == pytest.approx(by_class.heterogeneity)
    assert sorted(shuffled.planner.parts.tolist()) == sorted(by_class.planner.parts.tolist())
    assert not np.array_equal(shuffled.planner.parts, by_class.planner.parts)


def test_a_run_saved_earlier_resumes_with_its_own_split(saved_earlier, tmp_path):
    ok("train", "--resume", "--out", saved_earlier)
    train(RunConfig(**SHORT, split_order="by-class"), tmp_path / "whole")
    ended = [
        checkpoint.load(folder / "checkpoint.safetensors")[0]
        for folder in (saved_earlier, tmp_path / "whole")
    ]
    assert all(torch.equal(ended[0][name], ended[1][name]) for name in ended[0])
    assert read_status(saved_earlier).config["split_order"] == "by-class"


def test_a_run_saved_earlier_does_not_change_its_split(saved_earlier):
    complaint = "split_order='shuffled': differs from the run that is resumed, which has 'by-class'"
    with pytest.raises(bg.InvalidArgument, match=complaint):
        train(RunConfig(**SHORT), saved_earlier, resume=True)
    done = run_here("train", "--resume", "--out", saved_earlier, "--split-order", "shuffled")
    assert done.returncode == 2
    assert complaint.replace("split_order", "--split-order") in done.stderr


def test_a_sweep_saved_earlier_is_not_continued_with_another_split(tmp_path):
    runs = expand(SHORT, [{"seed": [0, 1]}], "test")
    folder = SweepFolder(tmp_path, "x", resume=False)
    train(runs["seed=0"], tmp_path / "seed=0")
    assert folder.left(runs) == {"seed=1": runs["seed=1"]}
    forget_the_field(tmp_path / "seed=0")
    complaint = r"split_order='shuffled': differs from run seed=0 of .*, which has 'by-class'"
    with pytest.raises(bg.InvalidArgument, match=complaint):
        folder.left(runs)
