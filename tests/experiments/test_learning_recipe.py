"""The paper's training figures on small data: cells, presets, verdicts, and the command."""

from __future__ import annotations

import csv
import json
import shutil
from statistics import mean

import pytest

import basegraph as bg
from basegraph.experiments.claims import CLAIMS, judged
from basegraph.experiments.learning import (
    EXISTING,
    FIGURES,
    Cell,
    Experiment,
    Key,
    cells_of,
    preset,
)
from basegraph.experiments.learning_report import _shown, milestones, outputs, report
from basegraph.experiments.store import ResultFolder
from basegraph.experiments.sweep import SweepFolder
from basegraph.plots.learning import labels
from basegraph.training.config import RunConfig
from basegraph.training.run import Run
from basegraph.training.schedule import learning_rate
from support.cli import ok, run_here

TINY = ["--dataset", "digits", "--epochs", "2", "--seed", "0:1", "--lr", "0.1,0.01", "-n", "4",
        "--alpha", "0.1", "--topologies", "base:k=1,ring"]  # fmt: skip


STEPS_PER_EPOCH = 11
"""1294 digits that are not held out, on 4 nodes, in batches of 32."""


def ends(**accuracies):
    """Curves of one panel: a list of final accuracies for every topology, seed by seed."""
    return {
        Cell(0.1, 25, "dsgdm", spec.replace("__", ":k=").replace("_", "-")): {
            seed: [{"test_accuracy": share}] for seed, share in enumerate(shares)
        }
        for spec, shares in accuracies.items()
    }


PANEL = (0.1, 25, "dsgdm")


def verdicts(figure, curves, lost=None):
    rows = judged(figure, [PANEL], curves, lost or {})
    return {row["the paper"]: row["verdict"] for row in rows}


def _definition_of(path):
    return (path / "out" / "runs" / "sweep.toml").read_text(encoding="utf-8")


def test_the_cells_of_the_figures():
    dsgd = cells_of(FIGURES["dsgd"])
    assert len(dsgd.trained) == 2 * (1 + 10)
    assert not dsgd.unstable
    nodes = cells_of(FIGURES["nodes"])
    assert nodes.same == {Cell(0.1, 24, "dsgdm", "base:k=4"): Cell(0.1, 24, "dsgdm", "base:k=3")}, (
        "as the paper says of n = 24"
    )
    assert set(CLAIMS) == set(FIGURES)


def test_seeds_share_a_curve_and_topologies_do_not():
    cells = [Cell(0.1, 25, "dsgdm", "ring"), Cell(0.1, 25, "allreduce-sgd", "all-reduce")]
    shown = labels([_shown(Key(cell, 0.1, seed)) for cell in cells for seed in (0, 1)])
    assert shown == 2 * ["ring, η = 0.1"] + 2 * ["all-reduce, η = 0.1"]


def test_the_published_settings_and_ours():
    ours = RunConfig(**preset("ours", "cifar10", "vgg11", 500))
    assert ours == RunConfig(model="vgg11")
    published = RunConfig(**preset("published", "cifar10", "vgg11", 500))
    assert (published.normalize, published.model) == ("half", "vgg11:groups=8")
    assert (published.lr_min, published.warmup_start, published.lr_changes) == (1e-4, 5e-5, "epoch")
    assert published.cosine_epochs == 500
    gray = preset("published", "fashion-mnist", "lenet", 200)
    assert (gray["normalize"], gray["model"]) == ("none", "lenet:order=published")
    assert preset("published", "cifar10", "vgg11:groups=4", 500)["model"] == "vgg11:groups=4"
    with pytest.raises(bg.InvalidArgument, match="settings='mine': must be published or ours"):
        preset("mine", "cifar10", "vgg11", 500)


@pytest.mark.parametrize(("epochs", "last"), [(200, 8.438e-4), (500, 2.193e-4)])
def test_the_published_learning_rate(epochs, last):
    """As timm's scheduler gives it with `warmup_prefix`: its cosine is cut off by the end."""
    config = RunConfig(**preset("published", "cifar10", "lenet", epochs), epochs=epochs, lr=0.1)
    rates = [
        learning_rate(
            epoch, 1, epochs, peak=0.1, warmup=config.warmup, schedule=config.schedule,
            lowest=config.lr_min, warmup_start=config.warmup_start, changes=config.lr_changes,
            cosine_epochs=config.cosine_epochs,
        )
        for epoch in range(epochs)
    ]  # fmt: skip
    assert rates[:3] == pytest.approx([5e-5, 0.010045, 0.02004])
    assert max(rates) == rates[10] == 0.1
    assert rates[10 + epochs // 2] == pytest.approx((0.1 + 1e-4) / 2)
    assert rates[-1] == pytest.approx(last, rel=1e-3)


def test_claims_are_judged_by_differences_within_seeds():
    """Seeds differ by ten points, topologies within a seed by one or nothing."""
    seeds = [0.5, 0.6, 0.7]
    ahead = [s + 0.01 + 0.0002 * i for i, s in enumerate(seeds)]
    alike = [s + 0.0001 * i for i, s in enumerate(seeds)]
    above = "Base-2 is above the one-peer exponential graph"
    same = "Base-2 is comparable to the exponential graph"
    denser = "Base-3, 4 and 5 are above both exponential graphs"
    found = verdicts("nodes", ends(base__1=ahead, one_peer_exponential=seeds, exponential=alike))
    assert found == {above: "confirmed", same: "refuted", denser: "open"}
    found = verdicts("nodes", ends(base__1=seeds, one_peer_exponential=ahead, exponential=alike))
    assert found == {above: "refuted", same: "confirmed", denser: "open"}
    cell = next(c for c in ends(one_peer_exponential=[0.1]))
    why = {row["the paper"]: row["because"] for row in judged("nodes", [PANEL], {
        Cell(0.1, 25, "dsgdm", spec): {s: [{"test_accuracy": a}] for s, a in enumerate(some)}
        for spec, some in {
            "base:k=2": [0.90, 0.91, 0.92], "base:k=3": [0.9, 0.2, 0.9],
            "base:k=4": [0.9, 0.91, 0.9], "exponential": [0.1, 0.1, 0.1],
            "one-peer-exponential": [0.8, 0.81, 0.82],
        }.items()
    }, {})}  # fmt: skip
    assert why[denser].startswith("base:k=3 − one-peer-exponential")  # which is open
    lost = verdicts(
        "nodes",
        ends(base__1=seeds, one_peer_exponential=ahead, exponential=alike),
        {cell: "diverged in seeds 2"},
    )
    assert lost == {above: "open", same: "confirmed", denser: "open"}
    one = ends(base__1=[0.9], one_peer_exponential=[0.1], exponential=[0.9])
    assert set(verdicts("nodes", one).values()) == {"open"}


def test_many_pairs_refute_less_easily_than_one():
    """A difference that refutes by itself may be the one in twenty that is chance."""
    seeds = [0.5, 0.6, 0.7]
    behind = [0.492, 0.5915, 0.6925]  # 0.8 points less, ± 0.02
    slightly = ends(base__1=behind, one_peer_exponential=seeds, exponential=seeds)
    assert (
        verdicts("nodes", slightly)["Base-2 is above the one-peer exponential graph"] == "refuted"
    )
    figure = ends(base__1=behind, exponential=seeds)
    for spec in EXISTING[1:]:
        figure |= ends(**{spec.replace("-", "_"): [0.4, 0.51, 0.6]})
    claim = "Base-2 is comparable to or above the existing topologies"
    assert verdicts("dsgd", figure)[claim] == "open"


def test_what_is_lost_or_missing_does_not_save_a_claim():
    """A pair of which nothing is lost refutes it all the same."""
    seeds = [0.5, 0.6, 0.7]
    far_behind = [s - 0.2 + 0.001 * i for i, s in enumerate(seeds)]
    claim = "Base-3, 4 and 5 are above both exponential graphs"
    curves = ends(base__2=far_behind, base__3=seeds, exponential=seeds)
    assert verdicts("nodes", curves)[claim] == "refuted"
    lost = {Cell(*PANEL, "one-peer-exponential"): "diverged in seeds 2"}
    assert verdicts("nodes", curves, lost)[claim] == "refuted"
    lost = {Cell(*PANEL, "base:k=2"): "diverged in seeds 2"}
    assert verdicts("nodes", curves, lost)[claim] == "open"


def test_equal_differences_say_nothing_of_their_error():
    chance = ends(base__1=[0.1] * 3, one_peer_exponential=[0.1] * 3, exponential=[0.1] * 3)
    assert set(verdicts("nodes", chance).values()) == {"open"}


def spread_of(small, large, lost=None):
    curves = {cell._replace(alpha=10.0): runs for cell, runs in ends(**large).items()}
    panels = [(10.0, *PANEL[1:]), PANEL]
    (row,) = [r for r in judged("dsgd", panels, curves | ends(**small), lost or {})
              if "differ more" in r["the paper"]]  # fmt: skip
    return row["verdict"], row["because"]


def test_ranges_are_compared_over_the_same_topologies():
    """A topology that was lost where it is worst must not make the range small there."""
    small = {"base__1": [0.70, 0.71, 0.72], "ring": [0.50, 0.51, 0.515], "torus": [0.6] * 3}
    large = {"base__1": [0.70, 0.71, 0.72], "ring": [0.69, 0.70, 0.71], "torus": [0.7] * 3}
    assert spread_of(small, large)[0] == "confirmed"
    without = {name: shares for name, shares in small.items() if name != "ring"}
    outcome, why = spread_of(without, large)
    assert outcome == "open"
    assert why.endswith("; without ring")
    outcome, why = spread_of(without, large, {Cell(*PANEL, "ring"): "diverged with every η"})
    assert outcome == "open"
    assert why.endswith("; ring diverged with every η")
    peers = {"one_peer_exponential": [0.6] * 3, "exponential": [0.6] * 3}
    lost = {Cell(*PANEL, "one-peer-exponential"): "diverged with every η"}
    assert "without exponential" in spread_of(small, {**large, **peers}, lost)[1]
    only = {name: {"base__1": shares["base__1"]} for name, shares in (("s", small), ("l", large))}
    assert spread_of(only["s"], only["l"])[1] == "needs two topologies with runs at both α"
    cut = {**small, "ring": small["ring"][:2]}
    assert spread_of(cut, large, {Cell(*PANEL, "ring"): "diverged in seeds 2"})[0] == "open"


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
    assert "runs are missing" not in ok(*command, "--resume", "--minutes", "0")
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


def test_milestones_say_what_a_good_model_has_cost():
    def runs(*accuracies):
        return [
            {"test_accuracy": a, "test_accuracy_averaged": 0.9, "bytes_per_node": (i + 1) * 1e6}
            for i, a in enumerate(accuracies)
        ]

    panel = (0.1, 25, "dsgdm")
    fast, slow = Cell(*panel, "base:k=1"), Cell(*panel, "ring")
    first, second = milestones(
        {
            fast: {0: runs(0.5, 0.86, 0.895, 0.9), 1: runs(0.7, 0.88, 0.89, 0.9)},
            slow: {0: runs(0.1, 0.2, 0.3, 0.89), 1: runs(0.1, 0.2, 0.3, 0.4)},
        }
    )
    assert first["good %"] == second["good %"] == 89.0
    assert first["nodes % after 1/4"] == "60.00 ± 14.14"
    assert first["nodes % after 1/2"] == "87.00 ± 1.41"
    assert first["nodes: MB to good, each seed"] == "3, 3"
    assert second["nodes: MB to good, each seed"] == "4, never"
    assert second["averaged model: MB to good, each seed"] == "1, 1"


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
             "--nodes", "4,4", "--alpha", "0.1,0.1", "--topologies", "ring,ring",
             "--methods", "dsgdm,dsgdm"]  # fmt: skip
    out = ok("reproduce", "learning", "dsgd", *twice, "--plan", "--json", "--out", tmp_path / "f")
    plan = json.loads(out)
    assert [(row["topology"], row["runs"]) for row in plan["plan"]] == [
        ("all-reduce", 1),
        ("ring", 1),
    ]
    assert plan["left_out"] == []


@pytest.mark.parametrize("more", [["--plan"], ["--model", "vgg11:groups=7"], ["--alpha", "0"]])
def test_plans_and_refusals_leave_nothing_behind(more, tmp_path):
    out = tmp_path / "some" / "out"
    made = run_here("reproduce", "learning", "dsgd", *TINY, *more, "--out", out)
    assert made.returncode == (0 if more == ["--plan"] else 2)
    assert list(tmp_path.iterdir()) == []


def test_another_setting_on_resume_is_named(tmp_path):
    command = ["reproduce", "learning", "dsgd", *TINY, "--out", tmp_path / "out"]
    ok(*command)
    command[command.index("--epochs") + 1] = "3"
    again = run_here(*command, "--resume")
    assert again.returncode == 2
    assert f"epochs=3: the runs in {tmp_path / 'out' / 'runs'} have 2" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["dsgd", "--minutes", "-1"], "--minutes='-1': must be a number ≥ 0"),
        (["dsgd", "--step-ms", "nan"], "--step-ms='nan': must be a number ≥ 1e-06"),
        (["dsdg"], "FIGURE='dsdg': did you mean 'dsgd'?"),
        (["dsgd", "--settings", "his"], "--settings='his': must be published or ours"),
        (["dsgd", "--dataset", "text"], "--dataset='text': must be images, not a text"),
        (["dsgd", "--dataset", "digits", "--lr", "0.00001"], "must be at most lr, 1e-05"),
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
    ok(*command, "--resume", "--minutes", "0")
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
