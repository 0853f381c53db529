"""The experiments of many runs, on small data."""

from __future__ import annotations

import csv
import re

import pytest

from basegraph.experiments import mnist, pairs
from basegraph.experiments.store import ResultFolder
from basegraph.experiments.sweep import SweepWatcher
from support.cli import run_here

FIXED = {"nodes": 5, "epochs": 4, "batch": 16, "evaluate_every": 1}


def milestones(folder):
    return (folder / "milestones.md").read_text(encoding="utf-8")


def test_mnist_experiment_on_digits(monkeypatch, tmp_path):
    """The whole recipe on small data; a second time there is nothing left to run."""
    monkeypatch.setattr(mnist, "TOPOLOGIES", ("base:k=1", "ring"))
    settings = {**FIXED, "epochs": 3}
    folder = ResultFolder(tmp_path / "out", mnist.outputs([0.1, 10.0]), force=False)
    table = mnist.reproduce(folder, settings, [0, 1, 2], [0.1, 10.0])
    assert {(row["topology"], row["alpha"]) for row in table} == {
        (t, a) for t in ("base:k=1", "ring", "all-reduce") for a in (0.1, 10.0)
    }
    assert all(row["seeds"] == 3 for row in table)
    with open(folder / "runs.csv", encoding="utf-8") as file:
        every = list(csv.DictReader(file))
    assert len(every) == 6 * (len(mnist.RATES) + 2)
    for row in table:
        tried = {
            float(one["lr"]): float(one["validation_accuracy"])
            for one in every
            if one["seed"] == "0"
            and (one["topology"], float(one["alpha"])) == (row["topology"], row["alpha"])
        }
        assert len(tried) == len(mnist.RATES)
        assert tried[row["lr"]] == max(tried.values())
    with open(folder / "curves.csv", encoding="utf-8") as file:
        curves = list(csv.DictReader(file))
    kept = [one for one in every if one["in the table"] == "True"]
    last = {(c["topology"], c["alpha"], c["seed"]): c for c in curves if c["epoch"] == "3"}
    assert len(curves) == 3 * len(kept)
    for one in kept:
        curve = last[one["topology"], one["alpha"], one["seed"]]
        assert float(curve["test_accuracy"]) == pytest.approx(float(one["test_accuracy"]), abs=1e-6)
    for row in table:
        shown = f"{row['test %']:.2f} ± {row['± %']:.2f}"
        assert re.search(rf"\| {row['alpha']} \| {row['topology']} \|.*{shown}", milestones(folder))
    for name in mnist.outputs([0.1, 10.0]):
        assert (folder / name).stat().st_size > 0
    made = []
    watcher = SweepWatcher(packed=made.append)
    again = mnist.reproduce(
        folder, settings, [0, 1, 2], [0.1, 10.0], resume=True, progress=lambda names: watcher
    )
    assert again == table
    assert made == []


def test_pairs_experiment_compares_within_seeds(tmp_path):
    chosen = [pairs.REFERENCE, "euclid:home=true", "ceca"]
    settings = {**FIXED, "epochs": 2}
    folder = ResultFolder(tmp_path / "out", pairs.outputs([0.1]), force=False)
    table = {
        row["topology"]: row for row in pairs.reproduce(folder, settings, [0, 1], [0.1], chosen)
    }
    with open(folder / "runs.csv", encoding="utf-8") as file:
        ended = {
            (row["topology"], row["seed"]): 100 * float(row["test_accuracy"])
            for row in csv.DictReader(file)
        }
    gains = [ended["euclid:home=true", s] - ended[pairs.REFERENCE, s] for s in "01"]
    assert max(gains) > min(gains)
    mine = table["euclid:home=true"]
    assert mine["above base:k=1"] == pytest.approx(sum(gains) / 2, abs=0.006)
    assert mine["standard error"] == pytest.approx((max(gains) - min(gains)) / 2, abs=0.006)
    assert (mine["rounds"], mine["largest pair weight"]) == (4, "1/2")
    two = table["ceca"]
    assert (two["rounds"], two["vectors per node"], two["seeds"]) == (3, 2, 2)
    assert two["largest pair weight"] == "–"  # no mixing matrices, no diagnostics
    assert two.keys() == mine.keys()
    assert table[pairs.REFERENCE]["above base:k=1"] == 0
    for name in pairs.outputs([0.1]):
        assert (folder / name).stat().st_size > 0


def test_pairs_of_which_none_ends_are_one_line(tmp_path):
    flags = [
        "--lr",
        "1e30",
        "--epochs",
        "2",
        "--nodes",
        "3",
        "--seed",
        "0:0",
        "--topologies",
        "base:k=1",
    ]
    done = run_here("reproduce", "pairs", *flags, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "every run failed: see" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
