"""`basegraph compare`: columns, means over seeds, files; on the runs of docs/results."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from basegraph.cli.run_rows import mean_rows, run_row
from support.cli import ok, run_here
from support.runs import write_run

RUNS = Path(__file__).resolve().parents[2] / "docs" / "results" / "vgg11"
SEEDS = sorted(RUNS.glob("*-[12]"))


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_row_for_every_run(tmp_path):
    text = ok("compare", *SEEDS, "--csv", tmp_path / "runs.csv")
    assert text.splitlines()[0].split()[:6] == ["run", "algorithm", "topology", "α", "lr", "epoch"]
    assert "differ only in their seed: --means" in text
    rows = read(tmp_path / "runs.csv")
    assert [row["run"] for row in rows] == [path.name for path in SEEDS]
    assert {row["alpha"] for row in rows} == {row["lr"] for row in rows} == {"0.1"}
    assert list(rows[0])[:4] == ["run", "topology", "nodes", "algorithm"]


def test_means_over_seeds(tmp_path):
    text = ok("compare", *SEEDS, "--means", "--csv", tmp_path / "means.csv")
    rows = read(tmp_path / "means.csv")
    assert [(row["topology"], row["seeds"]) for row in rows] == [
        ("base:k=1", "2"),
        ("one-peer-exponential", "2"),
        ("short:k=1,home=true", "2"),
    ]
    ended = [
        json.loads((RUNS / run / "metrics.jsonl").read_text().splitlines()[-1])["test_accuracy"]
        for run in ("base-1", "base-2")
    ]
    assert float(rows[0]["test_accuracy"]) == pytest.approx(sum(ended) / 2)
    spread = abs(ended[0] - ended[1]) / 2**0.5
    assert float(rows[0]["test_accuracy_std"]) == pytest.approx(spread)
    assert f"{50 * sum(ended):.1f} ± {100 * spread:.1f}" in text
    assert json.loads(ok("compare", *SEEDS, "--means", "--json"))[0]["seeds"] == 2


def test_a_run_that_was_made_again_is_no_second_seed():
    config = {"algorithm": "dsgdm", "topology": "ring", "seed": 0}
    runs = [
        {
            "run": f"r{i}",
            "state": "finished",
            "config": {**config, "seed": seed},
            "rows": [{"epoch": 1, "test_loss": a}],
        }
        for i, (seed, a) in enumerate([(0, 1.0), (0, 3.0), (1, 4.0)])
    ]
    (row,) = mean_rows(runs)
    assert (row["seeds"], row["test_loss"]) == (2, 3.0)
    assert row["test_loss_std"] == pytest.approx(2**0.5)
    assert mean_rows(runs[:2])[0]["test_loss_std"] is None


def test_a_copy_does_not_differ_in_its_seed(tmp_path):
    shutil.copytree(RUNS / "base-1", tmp_path / "copy")
    assert "--means" not in ok("compare", RUNS / "base-1", tmp_path / "copy")


def test_means_are_over_finished_runs(tmp_path):
    """One seed has ended, one was stopped on the way, one has diverged before an evaluation."""
    for seed, epochs in enumerate((4, 2, 0)):
        write_run(tmp_path / f"s{seed}", epochs, seed=seed)
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "s2.txt").write_text("the loss of node 0 is nan\n")
    plain = run_here("compare", tmp_path)
    assert plain.stdout.splitlines()[0].split()[-1] == "state"
    assert [line.split()[-1] for line in plain.stdout.splitlines()[1:3]] == ["finished", "stopped"]
    assert "s2 (failed at epoch 0 of 4: the loss of node 0 is nan)" in plain.stderr
    states = [run["state"] for run in json.loads(ok("compare", tmp_path, "--json"))]
    assert states == ["finished", "stopped"]
    means = run_here("compare", tmp_path, "--means", "--json")
    assert [(row["seeds"], row["epoch"]) for row in json.loads(means.stdout)] == [(1, 4)]
    assert "not in the means: " in means.stderr
    assert "s1 stopped at epoch 2 of 4" in means.stderr
    refused = run_here("compare", tmp_path / "s1", "--means")
    assert refused.returncode == 2
    assert "--means=True: is over finished runs: s1 stopped at epoch 2 of 4" in refused.stderr


def test_one_seed_has_no_deviation():
    text = ok("compare", RUNS / "base-1", "--means")
    assert "±" not in text
    assert "83.9" in text


def test_all_reduce_is_not_named_by_the_topology_that_it_ignores():
    config = {"algorithm": "allreduce-sgd", "topology": "base:k=1", "nodes": 25}
    assert run_row({"run": "a", "state": "finished", "config": config, "rows": [{"epoch": 1}]})[
        "topology"
    ] == ("all-reduce")


def test_alpha_is_that_of_a_dirichlet_split(tmp_path):
    for seed in (0, 1):
        for split in ("dirichlet", "iid"):
            write_run(tmp_path / f"{split}-{seed}", 4, split=split, seed=seed)
    text = ok("compare", tmp_path / "iid-0", "--csv", tmp_path / "one.csv").splitlines()
    shown = dict(zip(text[0].split(), text[1].split(), strict=False))
    assert (shown["α"], shown["lr"], shown["split"]) == ("–", "0.1", "iid")
    assert [(row["alpha"], row["split"]) for row in read(tmp_path / "one.csv")] == [("", "iid")]
    means = ok("compare", tmp_path, "--means", "--csv", tmp_path / "means.csv").splitlines()
    assert means[0].split()[:6] == ["seeds", "algorithm", "topology", "α", "lr", "split"]
    cells = [line.split()[3:6] for line in means[1:3]]
    assert cells == [["0.1", "0.1", "dirichlet"], ["–", "0.1", "iid"]]
    rows = [(r["alpha"], r["split"], r["seeds"]) for r in read(tmp_path / "means.csv")]
    assert rows == [("0.1", "dirichlet", "2"), ("", "iid", "2")]
    plain = ok("compare", tmp_path / "dirichlet-0").splitlines()[0].split()
    assert "split" not in plain


def test_settings_that_differ_have_a_column():
    """Seed 0 was trained with another path to the same data."""
    heading = ok("compare", RUNS).splitlines()[0].split()
    assert "dataset" in heading
    assert "nodes" not in heading


def test_the_averaged_model_is_drawn_below(tmp_path):
    picture = tmp_path / "curves.svg"
    ok("compare", *SEEDS, "--plot", picture, "--averaged")
    drawn = picture.read_text()
    assert "averaged model's test accuracy" in drawn.replace("&#x27;", "'")
    assert "GB sent per node" in drawn
    assert "n = 25, images:cifar10-jpeg, α = 0.1, vgg11, η = 0.1, 2 seeds" in drawn


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--averaged"], "--averaged=True: requires --plot FILE"),
        (["--csv", "table.txt"], "--csv='table.txt': must end in .csv"),
    ],
)
def test_mistakes(flags, complaint):
    result = run_here("compare", RUNS, *flags)
    assert result.returncode == 2
    assert complaint in result.stderr


def test_scores_of_several_kinds_have_a_table_each(tmp_path):
    """Accuracies and bits per byte are not to be compared, and neither is to be left out."""
    images = write_run(tmp_path / "images", 1)
    text = write_run(tmp_path / "text", 1)
    row = json.loads((text / "metrics.jsonl").read_text())
    bits = {k.replace("accuracy", "bits_per_byte"): v for k, v in row.items()}
    (text / "metrics.jsonl").write_text(json.dumps({**bits, "tokens": 1000}) + "\n")
    lines = ok("compare", images, text).splitlines()
    heads = [line for line in lines if line.startswith("run")]
    assert ["test %" in heads[0], "test bits/byte" in heads[1]] == [True, True]
    assert f"{100 * row['test_accuracy']:.1f}" in lines[lines.index(heads[0]) + 1]
    assert f"{row['test_accuracy']:.4g}" in lines[lines.index(heads[1]) + 1]


def test_diloco_is_named_by_how_it_communicates():
    outer = {"local_steps": 32, "outer": "allreduce-sgd:momentum=0.9,nesterov=true"}
    config = {"algorithm": "adamw", "topology": "base:k=1", "nodes": 5, **outer}
    row = run_row({"run": "x", "state": "finished", "stands": "", "config": config, "rows": [{}]})
    assert row["topology"] == "all-reduce"
