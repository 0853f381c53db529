"""The language experiment on a tiny model: in pieces, with what is missing, and its tables."""

from __future__ import annotations

import csv
import json
from statistics import mean

import pytest
import torch

from basegraph.errors import InvalidArgument
from basegraph.experiments import language, sweep
from basegraph.experiments.language import ARMS, Experiment, Key
from basegraph.experiments.language_report import outputs, report
from basegraph.experiments.store import HOLDS_RUNS, ResultFolder
from basegraph.experiments.sweep import SweepWatcher
from basegraph.storage.lock import locked
from basegraph.training._train import train_together
from support.cli import ok, run_here

MODEL = "gpt-tiny:layers=1,width=8,context=32"
SETTINGS = {
    "dataset": "text", "model": MODEL, "nodes": 3, "batch": 2, "epochs": 2, "epoch_steps": 4,
    "evaluate_samples": 4, "validation": 0.02, "precision": "float32", "checkpoint_every": 2,
}  # fmt: skip
RATES, SEEDS = [0.003, 0.03], [0, 1]


def experiment(path, arms=("all-reduce", "ring"), splits=("domains",), resume=True, **changes):
    folder = ResultFolder(path, outputs(list(splits)), force=resume)
    return Experiment(folder, SETTINGS | changes, arms, splits, RATES, SEEDS, resume=resume)


def table_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All runs of two arms, two of them side by side where that can be."""
    path = tmp_path_factory.mktemp("language")
    whole = experiment(path, resume=False)
    whole.make(side_by_side=2)
    return path


def test_the_arms_can_all_be_made(tmp_path):
    every = experiment(tmp_path, arms=list(ARMS), splits=("domains", "iid"), epoch_steps=16)
    assert len(every.tried) == 2 * len(ARMS) * len(RATES)
    assert every.count() == 2 * len(ARMS) * (len(RATES) + 1)
    diloco = every.tried[Key("iid", "diloco", 0.03, 0)]
    assert (diloco.local_steps, diloco.split) == (language.LOCAL_STEPS, "iid")
    assert len({key.name for key in every.tried}) == len(every.tried)


def test_the_best_rate_of_the_first_seed_is_used_for_the_others(made):
    whole = experiment(made)
    assert not whole.left(whole.known())
    for arm in ("all-reduce", "ring"):
        losses = {
            key.lr: rows[-1]["validation_loss"]
            for key, rows in whole.finished(whole.tried).items()
            if key.arm == arm
        }
        best = min(losses, key=losses.get)
        assert whole.best_rates()["domains", arm] == best
        assert [key.lr for key in whole.again() if key.arm == arm] == [best]


def test_finished_runs_keep_no_checkpoint(made):
    assert not list(made.glob("runs/*/checkpoint.safetensors"))
    assert len(list(made.glob("runs/*/metrics.jsonl"))) == 6


def test_the_table_compares_within_seeds(made):
    table, missing = report(experiment(made))
    assert missing == []
    assert {row["method"] for row in table} == {"all-reduce", "ring"}
    runs = [row for row in table_of(made / "runs.csv") if row["in the table"] == "True"]
    ends = {(r["method"], r["seed"]): float(r["test_bits_per_byte"]) for r in runs}
    gaps = [ends["ring", seed] - ends["all-reduce", seed] for seed in "01"]
    (ring,) = [row for row in table if row["method"] == "ring"]
    assert ring["above all-reduce"] == pytest.approx(mean(gaps), abs=1e-4)
    assert ring["standard error"] == pytest.approx(abs(gaps[0] - gaps[1]) / 2, abs=1e-4)
    assert ring["bits/byte"] == pytest.approx(mean(ends["ring", s] for s in "01"), abs=1e-4)
    assert (ring["seeds"], ring["rates tried"]) == (2, "2 of 2")
    for name in set(outputs(["domains"])) - {"missing.txt"}:
        assert (made / name).stat().st_size > 0
    domains = [row for row in table_of(made / "domains.csv") if row["method"] == "ring"]
    assert len(domains) == 2 * 6
    assert len(table_of(made / "curves.csv")) == 4 * 2


def test_what_is_missing_is_said_and_the_rest_drawn(made):
    """An arm that has not been tried at all, beside two that are complete."""
    more = experiment(made, arms=("all-reduce", "ring", "base:k=1"))
    table, missing = report(more)
    assert len(table) == 2
    assert missing == [Key("domains", "base:k=1", rate, 0).name for rate in RATES]
    assert (made / "missing.txt").read_text().split() == missing
    plan = {row["method"]: row for row in more.plan()}
    assert (plan["ring"]["left"], plan["base:k=1"]["left"]) == (0, 3)
    tokens = 2 * 4 * 3 * 2 * 32 / 1e6
    assert plan["base:k=1"]["M tokens left"] == pytest.approx(3 * tokens, rel=1e-3)
    assert (more.count(), more.count_left()) == (9, 3)


def test_other_seeds_made_before_all_rates_are_tried_are_in_the_table(made):
    whole = experiment(made)
    rate = whole.best_rates()["domains", "ring"]
    folder = ResultFolder(made, outputs(["domains"]), force=True)
    rates = [rate, 0.1]
    more = Experiment(folder, SETTINGS, ["ring"], ["domains"], rates, SEEDS, resume=True)
    assert [key.seed for key in more.made_ahead()] == [1]
    table, missing = report(more)
    assert [(row["seeds"], row["rates tried"]) for row in table] == [(2, "1 of 2")]
    assert missing == [Key("domains", "ring", 0.1, 0).name]
    assert (more.count(), more.count_left()) == (3, 1)


def test_out_of_memory_is_told_apart_and_tried_again(tmp_path, monkeypatch):
    def train_together_in_little_memory(runs, **options):
        if any(config.topology == "ring" for config in runs.values()):
            raise torch.OutOfMemoryError
        return train_together(runs, **options)

    monkeypatch.setattr(sweep, "train_together", train_together_in_little_memory)
    some = experiment(tmp_path, arms=("ring", "all-reduce"), resume=False)
    some.make()
    table, missing = report(some)
    assert [row["method"] for row in table] == ["all-reduce"]
    assert some.hopeless() == []
    assert missing == [Key("domains", "ring", rate, 0).name for rate in RATES]
    rows = table_of(tmp_path / "runs.csv")
    ends = {(row["method"], row["outcome"]) for row in rows}
    assert ends == {("ring", "out of memory"), ("all-reduce", "done")}
    monkeypatch.setattr(sweep, "train_together", train_together)
    again = experiment(tmp_path, arms=("ring", "all-reduce"))
    again.make()
    assert report(again)[1] == []


def test_local_steps_that_never_communicate_are_refused(tmp_path):
    complaint = "arms='{}': needs at least 32 steps; a run has 8: give methods without it, or more"
    with pytest.raises(InvalidArgument, match=complaint.format("diloco")):
        experiment(tmp_path, arms=("all-reduce", "diloco"))
    with pytest.raises(InvalidArgument, match=complaint.format("diloco,gossip-diloco")):
        experiment(tmp_path, arms=list(ARMS))


def test_no_run_begins_when_the_time_is_over(tmp_path):
    begun = []
    some = experiment(tmp_path, resume=False)
    some.make(minutes=0, progress=lambda names: SweepWatcher(packed=begun.append))
    assert begun == []
    assert report(some) == ([], [key.name for key in some.tried])


FLAGS = ["--dataset", "text", "--model", MODEL, "-n", "3", "--methods", "ring", "--splits", "iid",
         "--lr", "0.01", "--seed", "0", "--batch", "2", "--epochs", "1", "--epoch-steps", "2",
         "--precision", "float32"]  # fmt: skip


def test_the_command_in_pieces(tmp_path):
    out = ["--out", tmp_path / "out"]
    with locked("out", tmp_path / "out"):
        plan = ok("reproduce", "language", *FLAGS, *out, "--plan", "--speed", "1000")
    assert "1 of 1 runs left" in plan
    assert "0.000384 M tokens: 0.00011 hours at 1e+03 tokens/s" in plan
    printed = ok("reproduce", "language", *FLAGS, *out, "--minutes", "0")
    assert "1 of 1 runs are missing" in printed
    for_a_time = run_here("reproduce", "language", *FLAGS, *out)
    assert for_a_time.stderr.endswith(f"out': {HOLDS_RUNS}\n")
    answer = json.loads(ok("reproduce", "language", *FLAGS, *out, "--resume", "--json"))
    assert answer["missing"] == []
    assert answer["table"][0]["method"] == "ring"
    again = run_here("reproduce", "language", *FLAGS, *out)
    assert again.returncode == 2
    assert again.stderr.endswith(f"out': {HOLDS_RUNS}\n")


def test_a_short_text_is_validated_on_a_window(tmp_path):
    """Two percent of its windows are less than one."""
    folder = tmp_path / "short"
    folder.mkdir()
    for name, letters in {"a": "ab", "b": "cd", "c": "ef"}.items():
        (folder / f"{name}.txt").write_text(letters * 150)
    flags = ["--dataset", f"text:{folder}", "--splits", "domains", "--out", tmp_path / "out"]
    answer = json.loads(ok("reproduce", "language", *FLAGS, *flags, "--json"))
    assert [row["validation windows"] for row in answer["table"]] == ["1"]


def test_spaces_around_commas_do_not_count(tmp_path):
    lists = ["--methods", "ring, all-reduce", "--splits", " iid"]
    out = ok("reproduce", "language", *FLAGS, *lists, "--plan", "--json", "--out", tmp_path / "f")
    rows = json.loads(out)["plan"]
    assert [(row["split"], row["method"]) for row in rows] == [
        ("iid", "ring"),
        ("iid", "all-reduce"),
    ]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--methods", "rings"], "--methods='rings': did you mean 'ring'?"),
        (["--methods", "ring,"], "--methods='': not known. Known: all-reduce"),
        (["--splits", "dirichlet"], "--splits='dirichlet': must be some of domains, iid"),
        (["--model", "gpt-tiny:heads=3", "--plan"], "heads=3: must divide the width"),
        (["--dataset", "digits", "--plan"], "must be text or text:PATH"),
        (["--model", "mlp"], "--model='mlp': must be a model for tokens"),
        (["--speed", "1000"], "--speed='1000': requires --plan"),
        (["-n", "9", "--splits", "domains"], "--nodes=9: must be at most the 6 domains"),
    ],
)
def test_wrong_arguments_are_one_line(tmp_path, flags, complaint):
    done = run_here("reproduce", "language", *FLAGS, *flags, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert not (tmp_path / "out" / "runs").exists()
