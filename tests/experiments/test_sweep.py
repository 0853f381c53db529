"""Sweeps: grids of runs in packs, stopped, refused, out of memory, on Ray."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch

from basegraph.data.catalog import load
from basegraph.errors import InvalidArgument
from basegraph.experiments import grid, sweep
from basegraph.experiments.grid import expand
from basegraph.experiments.sweep import SweepFolder, SweepWatcher, run_sweep
from basegraph.models.flat import FlatModel
from basegraph.models.networks import build
from basegraph.training import memory
from basegraph.training._train import train, train_together
from basegraph.training.config import RunConfig
from support.cli import ok, run, run_here
from support.held import held

FIXED = {"nodes": 5, "epochs": 4, "batch": 16, "evaluate_every": 1}
GRID = 'nodes = 5\nepochs = 4\nbatch = 16\n[grid]\ntopology = ["base:k=1", "ring"]\nseed = [0, 1]\n'


def without_time(rows):
    return [{**row, "seconds": 0} for row in rows]


def metrics(folder: Path):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def close(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a.keys() - {"seconds"}:
            assert a[name] == pytest.approx(b[name], rel=1e-4, abs=1e-6), name


def test_sweep_end_to_end(tmp_path):
    (tmp_path / "s.toml").write_text(GRID)
    text = ok("sweep", tmp_path / "s.toml", "--out", tmp_path / "out")
    assert "4 of 4 runs done" in text
    train(RunConfig(nodes=5, epochs=4, batch=16, topology="ring", seed=1), tmp_path / "alone")
    close(metrics(tmp_path / "out" / "topology=ring_seed=1"), metrics(tmp_path / "alone"))
    again = run_here("sweep", tmp_path / "s.toml", "--out", tmp_path / "out")
    assert again.returncode == 2
    assert "holds a sweep already: resume it, or choose another folder" in again.stderr
    arguments = ["sweep", tmp_path / "s.toml", "--out", tmp_path / "out", "--resume", "--json"]
    rows = json.loads(run_here(*arguments).stdout)
    assert [row["epoch"] for row in rows] == [4] * 4
    (tmp_path / "s.toml").write_text(GRID + "lr = [0.1]\n")
    other = run_here("sweep", tmp_path / "s.toml", "--out", tmp_path / "out", "--resume")
    assert other.returncode == 2
    assert "holds a sweep of another file" in other.stderr


def test_data_that_have_changed_are_refused(tmp_path):
    """Results of different data would stand in one table."""
    text, folder = tmp_path / "words.txt", SweepFolder(tmp_path / "out", "", resume=False)
    tiny = {"model": "gpt:layers=1,width=8,heads=1,context=8", "epochs": 1, "epoch_steps": 2}
    fixed = {**tiny, "dataset": f"text:{text}", "nodes": 2, "algorithm": "adamw", "split": "iid"}

    def make(*seeds):
        runs = {f"seed={s}": RunConfig(**fixed, seed=s) for s in seeds}
        run_sweep(runs, folder)
        return runs

    text.write_text("one and two and three " * 40)
    first = make(0)
    text.write_text("uno y dos y tres y mas" * 40)
    grid._loaded.cache_clear()
    with pytest.raises(InvalidArgument, match=r"seed=0 was made with: data have changed"):
        make(0, 1)
    assert not (tmp_path / "out" / "seed=1").exists()
    origin = json.loads((tmp_path / "out" / "seed=0" / "provenance.json").read_text())
    both = {**first, "copied": first["seed=0"]}
    copied = shutil.copytree(tmp_path / "out" / "seed=0", tmp_path / "out" / "copied")
    assert not folder.left(both)
    (copied / "provenance.json").write_text(json.dumps({**origin, "data_checksum": "1-2"}))
    with pytest.raises(InvalidArgument, match="seed=0 and copied are of different data"):
        folder.left(both)
    del origin["data_checksum"]  # of an earlier version
    (copied / "provenance.json").write_text(json.dumps(origin))
    assert not folder.left(both)


def test_a_failed_run_is_reported_and_not_tried_again(tmp_path):
    (tmp_path / "s.toml").write_text("nodes = 5\nepochs = 4\n[grid]\nlr = [0.1, 1e9]\n")
    for resume in ([], ["--resume"]):
        done = run_here("sweep", tmp_path / "s.toml", "--out", tmp_path / "out", *resume)
        assert done.returncode == 1
        assert "1 of 2 runs done" in done.stdout
        assert "the loss of node" in done.stdout


@pytest.mark.parametrize(
    ("how", "place", "times"),
    [
        (signal.SIGKILL, "checkpoint", 4 * 1 + 3),  # some runs have written their second one
        (signal.SIGTERM, "step", 40),
    ],
)
def test_a_stopped_sweep_resumes(how, place, times, tmp_path):
    (tmp_path / "s.toml").write_text(GRID)
    whole, cut, hold = tmp_path / "whole", tmp_path / "cut", tmp_path / "hold"
    one = cut / "topology=ring_seed=0" / "metrics.jsonl"
    arguments = ["sweep", tmp_path / "s.toml", "--out", cut]
    with held(hold, place, times, *arguments) as process:
        assert one.read_text().count("\n") == 2
        refused = run_here(*arguments, "--resume")
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert f"is in use by process {process.pid} on" in refused.stderr
        code, errors = process.end(how)
    if how == signal.SIGTERM:
        assert code == 128 + how
        assert "checkpoint in each of 4 folders: resume it to continue" in errors
    assert one.read_text().count('"epoch": 4,') == 0
    for arguments in (["--out", cut, "--resume"], ["--out", whole]):
        assert run_here("sweep", tmp_path / "s.toml", *arguments).returncode == 0
    for path in whole.glob("topology=*"):
        assert without_time(metrics(cut / path.name)) == without_time(metrics(path))
    assert len(list(whole.glob("topology=*"))) == 4


@pytest.mark.slow  # starting Ray takes most of a minute on two cores
def test_ray_gives_the_same(tmp_path):
    pytest.importorskip("ray", reason="no ray: sweeps on a cluster are not tested")
    (tmp_path / "s.toml").write_text(GRID.replace("seed = [0, 1]", "lr = [0.1, 1e9]"))
    done = run("sweep", tmp_path / "s.toml", "--out", tmp_path / "ray", "--executor", "ray")
    assert done.returncode == 1, done.stderr
    assert "2 of 4 runs done" in done.stdout
    assert len(list((tmp_path / "ray" / "failures").glob("topology=*_lr=1000000000.0.txt"))) == 2
    run_here("sweep", tmp_path / "s.toml", "--out", tmp_path / "local")
    name = "topology=ring_lr=0.1"
    close(metrics(tmp_path / "ray" / name), metrics(tmp_path / "local" / name))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nodes = 5\n", "needs a table [grid]"),
        ("nodes = 5\n[grid]\n", "grid={}: must have a field with a list of values"),
        ("[grid]\nlr = []\n", "grid.lr=[]: must be a list of one or more values"),
        ("[grid]\nlr = 0.1\n", "grid.lr=0.1: must be a list of one or more values"),
        ("[grid]\nrate = [1]\n", "field of s.toml='rate'"),
        ("nodse = 5\n[grid]\nlr = [0.1]\n", "field of s.toml='nodse': did you mean 'nodes'"),
        ("lr = 0.1\n[grid]\nlr = [0.1]\n", "grid.lr=[0.1]: is fixed at the top already"),
        ("[grid]\nlr = [0.1, -1.0]\n", "lr=-1.0: must be a number above 0"),
        ("[grid]\nlr = [0.1, 0.1]\n", "is there twice"),
        ('[grid]\ntopology = ["rong"]\n', "topology='rong': did you mean 'ring'"),
        ('[grid]\nalgorithm = ["dsgd", "d2"]\n', "d2 is unstable on base:k=1 with n=25"),
        ("[grid\n", "is not TOML"),
        ("[grid]\nnodes = [5, 10000000]\n", "nodes=10000000: must be at most the 1295 training"),
        ('model = "lenet"\n[grid]\nlr = [0.1]\n', "model='lenet': does not take images"),
    ],
)
def test_bad_sweeps_are_refused_before_anything_runs(text, complaint, tmp_path):
    (tmp_path / "s.toml").write_text(text)
    done = run_here("sweep", "s.toml", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("out/*/metrics.jsonl"))


@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_refused_sweep_is_one_line_and_leaves_its_folder_free(executor, tmp_path):
    if executor == "ray":
        pytest.importorskip("ray", reason="no ray: sweeps on a cluster are not tested")
    text = 'dataset = "mnist"\nmodel = "lenet"\ndata_dir = "nowhere"\n[grid]\nlr = [0.1, 0.2]\n'
    (tmp_path / "s.toml").write_text(text)
    by = run if executor == "ray" else run_here
    done = by("sweep", "s.toml", "--out", "out", "--executor", executor, cwd=tmp_path)
    assert done.returncode == 2
    assert re.fullmatch(
        r"basegraph: error: mnist: put train-images.* into nowhere/mnist .*",
        done.stderr.splitlines()[-1],
    )
    assert "Traceback" not in done.stderr
    (tmp_path / "s.toml").write_text(GRID)
    assert "4 of 4 runs done" in ok("sweep", "s.toml", "--out", "out", cwd=tmp_path)


def test_no_such_file_and_executor(tmp_path):
    done = run_here("sweep", "none.toml", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "SWEEP.toml='none.toml': No such file" in done.stderr
    (tmp_path / "s.toml").write_text(GRID)
    done = run_here("sweep", "s.toml", "--out", "out", "--executor", "slurm", cwd=tmp_path)
    assert done.returncode == 2
    assert "--executor='slurm': must be local or ray" in done.stderr


def test_what_does_not_fit_is_refused_with_what_would(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "free_memory", lambda device: 2_000_000)
    with pytest.raises(
        memory.NotEnoughMemory, match=r"needs about .* GiB on cpu.*at most \d+ nodes"
    ):
        train(RunConfig(nodes=100), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_packs_shrink_to_the_memory(monkeypatch, tmp_path):
    dataset = load("digits")
    model = FlatModel(build("mlp", dataset.shape, 10, 0))
    need = memory.bytes_of_run(RunConfig(**FIXED), model, dataset, torch.device("cpu"))
    room = (memory.bytes_of_data(dataset) + 2.5 * need) / memory.SHARE
    monkeypatch.setattr(memory, "free_memory", lambda device: int(room))
    packs = []
    runs = expand(FIXED, [{"seed": [0, 1, 2]}], "test")
    folder = SweepFolder(tmp_path / "out", "x", resume=False)
    run_sweep(runs, folder, progress=SweepWatcher(packed=packs.append))
    assert packs == [2, 1]
    assert folder.left(runs) == {}


def test_running_out_of_memory_loses_nothing(monkeypatch, tmp_path):
    tried = []

    def train_together_in_little_memory(runs, **options):
        tried.append(len(runs))
        if len(runs) > 1 or next(iter(runs.values())).seed == 2:
            raise torch.OutOfMemoryError
        return train_together(runs, **options)

    monkeypatch.setattr(sweep, "train_together", train_together_in_little_memory)
    runs = expand(FIXED, [{"seed": [0, 1, 2]}], "test")
    folder = SweepFolder(tmp_path / "out", "x", resume=False)
    reported = {}
    run_sweep(runs, folder, progress=SweepWatcher(failed=reported.__setitem__))
    assert tried == [3, 1, 2, 1, 1]
    assert folder.out_of_memory() == reported == {"seed=2": "out of memory"}
    assert all(folder.rows(name)[-1]["epoch"] == 4 for name in ("seed=0", "seed=1"))
    assert folder.failed() == {}, "it is tried again"
    assert list(folder.left(runs)) == ["seed=2"]
    monkeypatch.setattr(sweep, "train_together", train_together)
    run_sweep(runs, folder)
    assert folder.left(runs) == folder.out_of_memory() == {}
    assert folder.rows("seed=2")[-1]["epoch"] == 4


def test_what_does_not_fit_is_reported_and_the_rest_made(monkeypatch, tmp_path):
    """By the estimate before a pack: of runs on more nodes than the memory takes."""
    dataset = load("digits")
    model = FlatModel(build("mlp", dataset.shape, 10, 0))
    need = memory.bytes_of_run(RunConfig(**FIXED), model, dataset, torch.device("cpu"))
    room = (memory.bytes_of_data(dataset) + 1.5 * need) / memory.SHARE
    monkeypatch.setattr(memory, "free_memory", lambda device: int(room))
    (tmp_path / "s.toml").write_text("epochs = 4\nbatch = 16\n[grid]\nnodes = [50, 5]\n")
    command = ["sweep", tmp_path / "s.toml", "--out", tmp_path / "out"]
    done = run_here(*command)
    assert done.returncode == 1
    assert "1 of 2 runs done" in done.stdout
    assert "1 run ran out of memory: --resume tries it again" in done.stdout
    failed = {
        r["run"]: r["failed"] for r in json.loads(run_here(*command, "--resume", "--json").stdout)
    }
    assert failed["nodes=5"] is None
    assert failed["nodes=50"].startswith("out of memory: mlp with 50 nodes and batch 16 needs")
    monkeypatch.undo()
    assert "2 of 2 runs done" in ok(*command, "--resume")
    assert "out of memory" not in ok(*command, "--resume")
