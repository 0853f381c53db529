"""`basegraph reproduce learning` on small data: in pieces, resumed, refused, drawn again."""

from __future__ import annotations

import csv
import json
import shutil
from statistics import mean

import pytest
import torch

from basegraph.experiments import sweep
from basegraph.experiments.claims import CLAIMS
from basegraph.experiments.figures import FIGURES
from basegraph.experiments.learning import Cell, Experiment, Key
from basegraph.experiments.learning_report import outputs, report
from basegraph.experiments.store import HOLDS_RUNS, ResultFolder
from basegraph.experiments.sweep import SweepFolder
from basegraph.storage.lock import locked
from basegraph.training import memory
from basegraph.training._train import train_together
from basegraph.training.run import Run
from support.cli import ok, run_here

TINY = ["--dataset", "digits", "--epochs", "2", "--seed", "0:1", "--lr", "0.1,0.01", "-n", "4",
        "--alpha", "0.1", "--topologies", "base:k=1,ring"]  # fmt: skip


STEPS_PER_EPOCH = 11
"""1294 digits that are not held out, on 4 nodes, in batches of 32."""


def _definition_of(path):
    return (path / "out" / "runs" / "sweep.toml").read_text(encoding="utf-8")


def test_the_command_in_pieces(tmp_path):
    command = ["reproduce", "learning", "dsgd", *TINY, "--out", tmp_path / "out"]
    plan = json.loads(ok(*command, "--plan", "--json", "--step-ms", "25"))
    assert [(row["topology"], row["runs"], row["left"]) for row in plan["plan"]] == [
        ("all-reduce", 3, 3), ("base:k=1", 3, 3), ("ring", 3, 3)
    ]  # fmt: skip
    steps, size = 2 * STEPS_PER_EPOCH, 4 * 8970
    assert plan["plan"][2]["GB per node, each"] == pytest.approx(2 * steps * size / 1e9, rel=0.01)
    nothing = ok(*command, "--minutes", "0")
    assert "9 of 9 runs are missing" in nothing
    made = json.loads(ok(*command, "--resume", "--json"))
    assert made["missing"] == []
    for name in {*outputs(FIGURES["dsgd"]._replace(alphas=(0.1,), nodes=(4,)))} - {"missing.txt"}:
        assert (tmp_path / "out" / name).stat().st_size > 0
    with open(tmp_path / "out" / "runs.csv", encoding="utf-8") as file:
        runs = [row for row in csv.DictReader(file) if row["in the table"] == "True"]
    last = {(r["topology"], r["seed"]): 100 * float(r["test_accuracy"]) for r in runs}
    gaps = [last["ring", seed] - last["base:k=1", seed] for seed in "01"]
    (ring,) = [row for row in made["table"] if row["topology"] == "ring"]
    assert ring["above base:k=1"] == pytest.approx(mean(gaps), abs=0.006)
    assert ring["standard error"] == pytest.approx(abs(gaps[0] - gaps[1]) / 2, abs=0.006)
    with open(tmp_path / "out" / "runs.csv", encoding="utf-8") as file:
        validated = {
            float(row["lr"]): float(row["validation_accuracy"])
            for row in csv.DictReader(file)
            if (row["topology"], row["seed"]) == ("ring", "0")
        }
    assert len(validated) == 2
    assert validated[ring["lr"]] == max(validated.values())
    with open(tmp_path / "out" / "curves.csv", encoding="utf-8") as file:
        ended = {
            (row["topology"], row["seed"]): 100 * float(row["test_accuracy"])
            for row in csv.DictReader(file)
            if row["epoch"] == "2"
        }
    assert ended == pytest.approx(last, abs=1e-4)
    assert not list((tmp_path / "out").glob("runs/*/checkpoint.safetensors"))
    (best,) = [row for row in made["table"] if row["topology"] == "base:k=1"]
    name = Key(Cell(0.1, 4, "dsgdm", "base:k=1"), best["lr"], 1).name
    SweepFolder(tmp_path / "out" / "runs", _definition_of(tmp_path), resume=True).note_failure(
        name, "the loss of node 0 is nan"
    )
    fallen = tmp_path / "out" / "runs" / Key(Cell(0.1, 4, "dsgdm", "ring"), ring["lr"], 0).name
    first, *later = (fallen / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    best_ever = json.dumps({**json.loads(first), "test_accuracy_averaged": 1.0})
    (fallen / "metrics.jsonl").write_text("\n".join([best_ever, *later, ""]), encoding="utf-8")
    lost = json.loads(ok(*command, "--resume", "--minutes", "0", "--json"))
    columns = ("topology", "seeds diverged", "seeds", "seeds collapsed")
    _, *told = [tuple(row[column] for column in columns) for row in lost["table"]]
    assert told == [("ring", "–", 2, "0"), ("base:k=1", "1", 1, "–")]
    ended = "; diverged: base:k=1 in seeds 1; collapsed: ring in seeds 0\n"
    assert ended in (tmp_path / "out" / "claims.md").read_text(encoding="utf-8")
    assert run_here(*command).returncode == 2
    definition = tmp_path / "out" / "runs" / "sweep.toml"
    settings = json.loads(definition.read_text(encoding="utf-8"))
    del settings["clip"]  # as a version without that field wrote it
    definition.write_text(json.dumps(settings), encoding="utf-8")
    whole = ok(*command, "--resume", "--minutes", "0")
    assert "runs are missing" not in whole
    assert "not shown" not in whole
    fewer = ok(*command, "--topologies", "ring", "--resume", "--minutes", "0")
    assert "3 runs are of other seeds, rates or cells, and not shown: " in fewer
    definition.write_text(json.dumps({**settings, "clip": 1.0}), encoding="utf-8")
    assert run_here(*command, "--resume").returncode == 2


def test_mnist_is_one_of_the_figures(monkeypatch, tmp_path):
    small = FIGURES["mnist"]._replace(topologies=("base:k=1",), nodes=(3,))
    monkeypatch.setitem(FIGURES, "mnist", small)
    flags = ["--dataset", "digits", "--epochs", "2", "--seed", "0:0", "--alpha", "10"]
    assert "base:k=1" in ok("reproduce", "mnist", *flags, "--out", tmp_path / "out")
    runs = list((tmp_path / "out" / "runs").glob("*/config.toml"))
    assert len(runs) == 2 * 3
    assert "evaluate_samples = 0\n" in runs[0].read_text(encoding="utf-8")


def test_a_figure_of_which_every_run_diverged_is_no_result(tmp_path):
    command = [
        "reproduce",
        "learning",
        "dsgd",
        *TINY[:-2],
        "--topologies",
        "ring",
        "--out",
        tmp_path / "out",
    ]
    command[command.index("0.1,0.01")] = "1e30"
    done = run_here(*command)
    assert done.returncode == 1
    said = f"none of the 2 runs ended well: {tmp_path / 'out' / 'runs.csv'}"
    assert done.stderr.strip().endswith(said)
    with open(tmp_path / "out" / "runs.csv", encoding="utf-8") as file:
        assert all("the loss of node" in row["outcome"] for row in csv.DictReader(file))


def test_topologies_that_diverge_with_every_rate_are_named(tmp_path):
    folder = ResultFolder(tmp_path, [], force=True)
    figure = FIGURES["dsgd"]._replace(alphas=(0.1,), nodes=(4,), topologies=("base:k=1", "ring"))
    settings = {"dataset": "digits", "model": "mlp", "epochs": 1}
    some = Experiment(folder, figure, settings, [0.1], [0], resume=False)
    for key in some.tried:
        if key.cell.topology == "ring":
            some.sweep.note_failure(key.name, "the loss of node 0 is nan")
    some.make()
    some.require_any()
    assert [cell.topology for cell in some.hopeless()] == ["ring"]
    report("dsgd", some)
    claims = (tmp_path / "claims.md").read_text()
    assert "; diverged: ring with every η\n" in claims
    assert "; ring diverged with every η |" in claims


def test_out_of_memory_is_no_divergence(tmp_path, monkeypatch):
    """The ring does not fit on the second seed at first: its run is missing, and tried again."""
    tried = []

    def train_together_in_little_memory(runs, **options):
        tried.extend(runs)
        if any((config.topology, config.seed) == ("ring", 1) for config in runs.values()):
            raise torch.OutOfMemoryError
        return train_together(runs, **options)

    monkeypatch.setattr(sweep, "train_together", train_together_in_little_memory)
    command = ["reproduce", "learning", "dsgd", *TINY, "--replicas", "1", "--out", tmp_path / "out"]
    printed = ok(*command)
    assert "1 run ran out of memory: --resume tries it again" in printed
    assert "1 of 9 runs are missing" in printed
    (name,) = (tmp_path / "out" / "missing.txt").read_text().split()
    assert sum(path.name == name for path in tried) == 1
    answer = json.loads(ok(*command, "--resume", "--minutes", "0", "--json"))
    assert answer["missing"] == answer["out_of_memory"] == [name]
    (ring,) = [row for row in answer["table"] if row["topology"] == "ring"]
    assert (ring["seeds"], ring["seeds diverged"]) == (1, "–")
    with open(tmp_path / "out" / "runs.csv", encoding="utf-8") as file:
        outcomes = [row["outcome"] for row in csv.DictReader(file)]
    assert sorted(set(outcomes)) == ["done", "out of memory"]
    assert "; out of memory: ring in seeds 1\n" in (tmp_path / "out" / "claims.md").read_text()
    monkeypatch.setattr(sweep, "train_together", train_together)
    assert "missing" not in ok(*command, "--resume")
    assert "out of memory" not in (tmp_path / "out" / "claims.md").read_text()


def test_a_figure_of_which_nothing_fits_is_no_result(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device: 0)
    command = ["reproduce", "learning", "dsgd", *TINY, "--out", tmp_path / "out"]
    done = run_here(*command)
    assert done.returncode == 1
    assert "none of the 6 runs ended well (out of memory: mlp with 4 nodes" in done.stderr
    monkeypatch.undo()
    assert "9 of 9" not in ok(*command, "--resume")


def test_a_drawing_of_all_reduce_alone(tmp_path):
    """It is made first, so that an interrupted campaign may have nothing else."""
    command = ["reproduce", "learning", "dsgd", *TINY, "--out", tmp_path / "out"]
    ok(*command)
    for run in (tmp_path / "out" / "runs").glob("*topology=[br]*"):
        shutil.rmtree(run)
    assert "needs runs of two α" in ok(*command, "--resume", "--minutes", "0")
    table, claims = (
        (tmp_path / "out" / name).read_text(encoding="utf-8")
        for name in ("learning.md", "claims.md")
    )
    assert table.count("all-reduce") == 1
    assert claims.count("| open |") == len(CLAIMS["dsgd"]) - 1, "one of them is about α = 10"


@pytest.mark.parametrize("methods", ["allreduce-sgd", "dsgdm,allreduce-sgd:momentum=0.5"])
def test_all_reduce_is_no_method_to_choose(methods, tmp_path):
    made = run_here("reproduce", "learning", "methods", *TINY, "--methods", methods,
                    "--out", tmp_path / "f")  # fmt: skip
    assert made.returncode == 2
    assert "is in every figure" in made.stderr
    assert len(made.stderr.strip().splitlines()) == 1


def test_what_is_given_twice_is_made_once(tmp_path):
    twice = ["--dataset", "digits", "--epochs", "2", "--seed", "0,0", "--lr", "0.1,0.1",
             "--nodes", "4,4", "--alpha", "0.1,0.1", "--topologies", "ring,ring, base,base:k=1",
             "--methods", "dsgdm,dsgdm:momentum=0.9"]  # fmt: skip
    out = ok("reproduce", "learning", "dsgd", *twice, "--plan", "--json", "--out", tmp_path / "f")
    plan = json.loads(out)
    assert [(row["topology"], row["runs"]) for row in plan["plan"]] == [
        ("all-reduce", 1),
        ("ring", 1),
        ("base:k=1", 1),
    ]
    assert plan["left_out"] == []


@pytest.mark.parametrize("more", [["--plan"], ["--model", "vgg11:groups=7"], ["--alpha", "0"]])
def test_plans_and_refusals_leave_nothing_behind(more, tmp_path):
    out = tmp_path / "some" / "out"
    made = run_here("reproduce", "learning", "dsgd", *TINY, *more, "--out", out)
    assert made.returncode == (0 if more == ["--plan"] else 2)
    assert list(tmp_path.iterdir()) == []


def test_what_was_begun_is_to_be_resumed(tmp_path):
    """After a drawing of nothing, too: --force would not help."""
    command = ["reproduce", "learning", "dsgd", *TINY, "--topologies", "ring", "--out", tmp_path]
    said = f"--out='{tmp_path}': {HOLDS_RUNS}\n"
    for more in (["--minutes", "0"], ["--resume"]):
        ok(*command, *more)
        again = run_here(*command)
        assert (again.returncode, said in again.stderr) == (2, True)


def test_a_plan_needs_no_lock_and_writes_nothing(tmp_path):
    out = tmp_path / "out"
    command = ["reproduce", "learning", "dsgd", *TINY, "--out", out]
    with locked("out", out):
        assert "9 of 9 runs left" in ok(*command, "--plan")
        assert [path.name for path in out.iterdir()] == [".lock"]
        assert "is in use by process" in run_here(*command).stderr
    ok(*command, "--topologies", "ring")
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    with locked("out", out):
        assert "3 of 9 runs left" in ok(*command, "--plan")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    (tmp_path / "file").write_text("")
    refused = run_here(*command[:-1], tmp_path / "file" / "out", "--plan")
    assert (refused.returncode, "cannot be made: " in refused.stderr) == (2, True)


def test_another_setting_on_resume_is_named(tmp_path):
    command = ["reproduce", "learning", "dsgd", *TINY, "--out", tmp_path / "out"]
    ok(*command)
    command[command.index("--epochs") + 1] = "3"
    again = run_here(*command, "--resume")
    assert again.returncode == 2
    assert f"epochs=3: the runs in {tmp_path / 'out' / 'runs'} have 2" in again.stderr
    command[command.index("--epochs") + 1] = "2"
    again = run_here(*command, "--settings", "ours", "--resume")
    assert again.returncode == 2
    said = f"normalize='dataset': the runs in {tmp_path / 'out' / 'runs'} have 'none'"
    assert f"--settings='ours': means {said}" in again.stderr
    config = next((tmp_path / "out" / "runs").glob("*/config.toml"))
    config.write_text("")
    again = run_here(*command, "--resume")
    assert again.returncode == 2
    assert f"{config}: is empty: remove its folder" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["dsgd", "--minutes", "-1"], "--minutes='-1': must be a number ≥ 0"),
        (["dsgd", "--step-ms", "nan"], "--step-ms='nan': must be a number ≥ 1e-06"),
        (["dsgd", "--step-ms", "25"], "--step-ms='25': requires --plan"),
        (["dsdg"], "FIGURE='dsdg': did you mean 'dsgd'?"),
        (["dsgd", "--topologies", "rign"], "--topologies='rign': did you mean 'ring'?"),
        (["dsgd", "--topologies", "base,base:k=0"], "--topologies='base:k=0': k=0: must be"),
        (["dsgd", "--topologies", "one-peer-hypercube"], "--nodes=25: one-peer-hypercube needs"),
        (["dsgd", "--methods", "dsgdm:momentum=2"], "--methods='dsgdm:momentum=2': momentum=2"),
        (["dsgd", "--settings", "his"], "--settings='his': must be published or ours"),
        (["dsgd", "--dataset", "text"], "--dataset='text': must be images, not a text"),
        (
            ["dsgd", "--dataset", "digits", "--lr", "0.1,0.00001"],
            "--lr=1e-05: must be at least 0.0001",
        ),
        (
            ["dsgd", "--lr", "0.1,0.10000001"],
            "--lr=[0.1, 0.10000001]: has two rates that are alike",
        ),
        (["dsgd", "--dataset", "digits", "--model", "gpt-tiny"], "is for windows of tokens"),
    ],
)
def test_wrong_arguments_are_one_line(tmp_path, arguments, complaint):
    done = run_here("reproduce", "learning", *arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_other_methods_than_the_figures(tmp_path):
    out = ok("reproduce", "learning", "methods", *TINY, "--methods", "dsgd,qg-dsgdm", "--plan",
             "--json", "--out", tmp_path / "f")  # fmt: skip
    trained = {(row["method"], row["topology"]) for row in json.loads(out)["plan"]}
    assert trained == {
        ("allreduce-sgd", "all-reduce"),
        *((method, t) for method in ("dsgd", "qg-dsgdm") for t in ("base:k=1", "ring")),
    }


def test_what_is_unstable_is_named(tmp_path):
    command = ["reproduce", "learning", "methods", *TINY, "-n", "5", "--methods", "d2"]
    out = ok(*command, "--plan", "--json", "--out", tmp_path / "f")
    plan = json.loads(out)
    assert [row["topology"] for row in plan["plan"]] == ["all-reduce", "ring"]
    assert plan["left_out"] == ["d2, n=5, base:k=1: unstable"]
    made = json.loads(ok(*command, "--minutes", "0", "--json", "--out", tmp_path / "f"))
    assert (made["left_out"], made["not_asked_for"]) == (plan["left_out"], [])


def test_all_reduce_is_in_no_panel_of_a_method_of_several(tmp_path):
    """Its difference from base would depend on which method comes first."""
    command = ["reproduce", "learning", "methods", *TINY, "--seed", "0", "--lr", "0.1"]
    for methods, compared in (("dsgdm", True), ("dsgdm,dsgd", False)):
        made = ok(*command, "--methods", methods, "--json", "--out", tmp_path / methods)
        (central,) = [r for r in json.loads(made)["table"] if r["topology"] == "all-reduce"]
        assert isinstance(central["above base:k=1"], float) is compared


@pytest.mark.parametrize("methods", [",", "sgd", "dsgdm:beta=1"])
def test_methods_that_do_not_exist_are_refused(methods, tmp_path):
    made = run_here("reproduce", "learning", "methods", *TINY, "--methods", methods,
                    "--out", tmp_path / "f")  # fmt: skip
    assert made.returncode == 2
    assert len(made.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "f").exists()


def test_a_drawing_leaves_nothing_of_an_earlier_one(tmp_path):
    command = ["reproduce", "learning", "dsgd", *TINY, "--out", tmp_path / "out"]
    command[command.index("--alpha") + 1] = "0.1,10"
    ok(*command)
    for name in ("notes.md", "curves-mine.png"):
        (tmp_path / "out" / name).write_text("mine")
    assert (tmp_path / "out" / "curves-10-4-dsgdm.png").exists()
    command[command.index("--alpha") + 1] = "0.1"
    ok(*command, "--resume", "--minutes", "0")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert not any(name.startswith("curves-10-") for name in names)
    assert "curves-0.1-4-dsgdm.png" in names
    command[command.index("--seed") + 1] = "7"
    answer = json.loads(ok(*command, "--resume", "--minutes", "0", "--json"))
    assert answer["not_asked_for"] == sorted(
        path.parent.name for path in tmp_path.glob("out/runs/*/config.toml")
    )
    names = {path.name for path in (tmp_path / "out").iterdir()}
    kept = {"runs", "runs.csv", "missing.txt", "provenance.json"}
    assert names == {*kept, "notes.md", "curves-mine.png"}


def test_the_time_of_runs_side_by_side_counts_once(tmp_path):
    folder = ResultFolder(tmp_path, [], force=True)
    figure = FIGURES["dsgd"]._replace(alphas=(0.1,), nodes=(5,), topologies=("base:k=1", "ring"))
    settings = {"dataset": "digits", "model": "mlp", "epochs": 1}
    some = Experiment(folder, figure, settings, [0.1], [0], resume=False)
    assert some.measured_ms_per_step() is None
    some.make(side_by_side=8)
    for key in some.tried:  # all-reduce by itself, the two others beside each other
        path = tmp_path / "runs" / key.name / "metrics.jsonl"
        (row,) = [json.loads(line) for line in path.read_text().splitlines()]
        seconds = 4.0 if key.cell.topology == "all-reduce" else 6.0
        path.write_text(json.dumps({**row, "seconds": seconds}) + "\n")
    (steps,) = {rows[-1]["step"] for rows in some.finished(some.tried).values()}
    expected = 1000 * (4 + 6) / (3 * steps * 5 / 25)
    assert some.measured_ms_per_step() == pytest.approx(expected)


def test_a_run_that_diverges_keeps_no_checkpoint_in_a_campaign(tmp_path, monkeypatch):
    existed = []

    def record_losses(run, losses):
        if run.view.step > 3 * STEPS_PER_EPOCH:
            existed.append(run.folder.checkpoint.exists())
            raise run._diverged("the loss of node 0 is nan", run.view.step)

    monkeypatch.setattr(Run, "record_losses", record_losses)
    folder = ResultFolder(tmp_path, [], force=True)
    figure = FIGURES["dsgd"]._replace(alphas=(0.1,), nodes=(4,), topologies=("ring",))
    settings = {"dataset": "digits", "model": "mlp", "epochs": 9, "checkpoint_every": 1}
    some = Experiment(folder, figure, settings, [0.1], [0], resume=False)
    some.make()
    assert existed == [True, True]
    reason = f"the loss of node 0 is nan at step {3 * STEPS_PER_EPOCH + 1}"
    assert list(some.sweep.failed().values()) == [reason, reason]
    assert not list(tmp_path.glob("runs/*/checkpoint.safetensors"))
