"""The experiments of many runs, on small data."""

from __future__ import annotations

import csv

import pytest

from basegraph.experiments import pairs
from basegraph.experiments.store import HOLDS_RUNS, ResultFolder
from basegraph.training import memory
from support.cli import ok, run_here

FIXED = {"nodes": 5, "epochs": 4, "batch": 16, "evaluate_every": 1}


def test_pairs_experiment_compares_within_seeds(tmp_path):
    chosen = [pairs.REFERENCE, "euclid:home=true", "ceca"]
    settings = {**FIXED, "epochs": 2}
    folder = ResultFolder(tmp_path / "out", pairs.outputs([0.1]), force=False)
    rows, cramped = pairs.reproduce(folder, settings, [0, 1], [0.1], chosen)
    table = {row["topology"]: row for row in rows}
    assert cramped == []
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


@pytest.mark.parametrize("reference", ["base", "one-peer-exponential"])
def test_the_reference_of_pairs_is_found_by_any_of_its_names(reference, tmp_path):
    folder = ResultFolder(tmp_path / "out", pairs.outputs([0.1]), force=False)
    names = [reference, "euclid:home=true", pairs.REFERENCE]
    table, _ = pairs.reproduce(folder, {**FIXED, "nodes": 4, "epochs": 1}, [0], [0.1], names)
    gains = {row["topology"].split(" = ")[0]: row["above base:k=1"] for row in table}
    assert gains.keys() <= {"base:k=1", "one-peer-exponential", "euclid:home=true"}
    assert all(isinstance(gain, float) for gain in gains.values())
    with open(folder / "runs.csv", encoding="utf-8") as file:
        assert len({row["topology"] for row in csv.DictReader(file)}) == len(gains)


def test_pairs_in_a_folder_with_runs_are_resumed(tmp_path):
    command = ["reproduce", "pairs", "--epochs", "1", "--nodes", "3", "--seed", "0",
               "--topologies", "base:k=1", "--out", tmp_path / "out"]  # fmt: skip
    ok(*command)
    for more in ([], ["--force"]):
        again = run_here(*command, *more)
        assert again.returncode == 2
        said = f"--out='{tmp_path / 'out'}': {HOLDS_RUNS}\n"
        assert again.stderr.endswith(said)
    ok(*command, "--resume")


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("flags", [["--alpha", "0"], ["--model", "lenet"], ["--dataset", "mnist"]])
def test_refused_pairs_leave_nothing_behind(exists, flags, tmp_path):
    out = tmp_path / "some" / "out"
    if exists:
        out.mkdir(parents=True)
    refused = run_here("reproduce", "pairs", *flags, "--data-dir", "nowhere", "--out", out)
    assert refused.returncode == 2
    assert [*tmp_path.rglob("*")] == ([out.parent, out] if exists else [])


def test_pairs_of_which_none_fits_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device: 0)
    flags = ["--epochs", "1", "--nodes", "3", "--seed", "0", "--topologies", "base:k=1"]
    done = run_here("reproduce", "pairs", *flags, "--out", tmp_path / "out")
    assert done.returncode == 2
    (note,) = (tmp_path / "out" / "runs" / "failures").iterdir()
    assert note.read_text().startswith("out of memory: mlp with 3 nodes")
    monkeypatch.undo()
    ok("reproduce", "pairs", *flags, "--out", tmp_path / "out", "--resume")


@pytest.mark.parametrize(
    ("rates", "complaint"),
    [("0.1,0.1000000001", "has two rates that are alike"), ("0.1,x", "lr='x'")],
)
def test_pairs_take_every_rate_once(rates, complaint, tmp_path):
    flags = ["--epochs", "1", "--nodes", "3", "--seed", "0", "--topologies", "base:k=1"]
    command = ["reproduce", "pairs", *flags, "--out", tmp_path / "out", "--lr"]
    refused = run_here(*command, rates)
    assert (refused.returncode, refused.stderr.count("--lr=")) == (2, 1)
    assert complaint in refused.stderr
    ok(*command, "0.1,0.1")
    with open(tmp_path / "out" / "pairs.csv", encoding="utf-8") as file:
        assert [row["lr"] for row in csv.DictReader(file)] == ["0.1"]


def test_pairs_name_a_topology_whose_options_are_refused(tmp_path):
    done = run_here("reproduce", "pairs", "--topologies", "base:k=0", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "--topologies='base:k=0': k=0: must be an integer ≥ 1" in done.stderr


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
