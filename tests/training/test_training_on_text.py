"""Training on text: splits by domain, bits per byte, and what is refused before anything runs."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import basegraph as bg
from basegraph.data import by_domain, hold_out, iid, load
from basegraph.engines.evaluation import TOKEN_LOSS
from basegraph.training.config_files import read_toml
from support.cli import ok, run_here

CONTEXT = 16
CONFIG = bg.RunConfig(nodes=3, epochs=2, batch=4, lr=1.0, warmup=0, evaluate_every=1)
LETTERS = {"a": "ab", "b": "cd", "c": "ef", "d": "gh"}


class Next(nn.Module):
    """What comes after a token, by that token alone."""

    def __init__(self, vocabulary=256, width=4):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(vocabulary, width)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.out(self.embedding(tokens))


@pytest.fixture
def folder(tmp_path):
    """Four domains, of 20 to 23 windows, whose texts differ by their letters."""
    folder = tmp_path / "domains"
    folder.mkdir()
    for place, (name, letters) in enumerate(LETTERS.items()):
        written = np.random.default_rng(place).choice(list(letters), CONTEXT * (20 + place) + 18)
        (folder / f"{name}.txt").write_text("".join(written))
    return folder


def train(folder, run, config=CONFIG, module=None, **given):
    dataset = bg.text(folder, context=CONTEXT)
    return bg.train(config, run, dataset=dataset, module=module or Next(), **given)


def facts(run):
    return json.loads((run / "provenance.json").read_text())["measured"]


def test_rows_of_text_are_losses_in_nats_and_bits_per_byte(folder, tmp_path):
    rows = train(folder, tmp_path / "run")
    for row in rows:
        for part in ("test", "validation"):
            for whose in ("", "_averaged", "_worst"):
                nats = row[f"{part}_loss{whose}"]
                assert row[f"{part}_bits_per_byte{whose}"] == pytest.approx(nats / math.log(2))
        assert "test_accuracy" not in row
        assert row["tokens"] == row["step"] * CONFIG.nodes * CONFIG.batch * CONTEXT
        assert row["test_loss_worst"] >= row["test_loss"]
    assert rows[-1]["test_loss"] < rows[0]["test_loss"] < math.log(256)


def test_domains_are_scored_by_themselves(folder, tmp_path):
    """Without training: what the model itself gives on the held-out part of every file."""
    module, dataset = Next(), bg.text(folder, context=CONTEXT)
    frozen = bg.RunConfig(nodes=3, epochs=1, batch=4, lr=1e-30, warmup=0)
    (row,) = train(folder, tmp_path / "run", frozen, module)
    with open(tmp_path / "run" / "domains.csv", encoding="utf-8") as file:
        domains = {line["domain"]: line for line in csv.DictReader(file)}
    assert list(domains) == list(LETTERS)
    losses = []
    for place, line in enumerate(domains.values()):
        own = dataset.text.test_domains == place
        x, y = (
            torch.as_tensor(part[own]).long()
            for part in (dataset.test.inputs, dataset.test.targets)
        )
        loss = nn.functional.cross_entropy(module(x).flatten(0, 1), y.flatten()).item()
        for whose in ("", "_averaged", "_worst"):
            assert float(line[f"loss{whose}"]) == pytest.approx(loss, rel=1e-5)
            assert float(line[f"bits_per_byte{whose}"]) == pytest.approx(loss / math.log(2), 1e-5)
        assert int(line["tokens"]) == int(line["bytes"]) == own.sum() * CONTEXT
        losses += [loss] * own.sum()
    assert row["test_loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_domains_count_the_windows_that_were_evaluated(folder, tmp_path):
    for file in folder.iterdir():
        file.write_text(30 * file.read_text())
    few = bg.RunConfig(nodes=3, epochs=1, batch=4, lr=1e-30, warmup=0, evaluate_last=20)
    (row,) = train(folder, tmp_path / "run", few)
    with open(tmp_path / "run" / "domains.csv", encoding="utf-8") as file:
        domains = list(csv.DictReader(file))
    tokens = np.array([int(line["tokens"]) for line in domains])
    losses = np.array([float(line["loss"]) for line in domains])
    assert tokens.sum() == 20 * CONTEXT
    assert row["test_samples"] == 20 < len(bg.text(folder, context=CONTEXT).test.inputs)
    assert (tokens * losses).sum() / tokens.sum() == pytest.approx(row["test_loss"], rel=1e-6)


def test_the_measure_is_the_loss_of_every_window():
    logits = torch.randn(3, 5, 7, 11, generator=torch.Generator().manual_seed(0))
    targets = torch.randint(0, 11, (5, 7), generator=torch.Generator().manual_seed(1))
    values = TOKEN_LOSS.totals(logits, targets)
    for model in range(3):
        for window in range(5):
            loss = nn.functional.cross_entropy(logits[model, window], targets[window])
            assert float(values[model, window]) == pytest.approx(float(loss), rel=1e-5)


def test_a_loss_of_ones_own_is_reported_as_it_is(folder, tmp_path):
    def doubled(logits, targets):
        return 2 * nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    (_, mine), (_, usual) = (
        train(folder, tmp_path / name, bg.RunConfig(**{**vars(CONFIG), "lr": 1e-30}), **given)
        for name, given in (("own", {"loss": doubled}), ("usual", {}))
    )
    assert mine["test_loss"] == pytest.approx(2 * usual["test_loss"], rel=1e-5)
    assert "test_bits_per_byte" not in mine
    assert not (tmp_path / "own" / "domains.csv").exists()


@pytest.mark.parametrize(("split", "heterogeneity"), [("domains", 0.75), ("iid", 0.0)])
def test_splits_say_who_holds_which_domain(folder, tmp_path, split, heterogeneity):
    config = bg.RunConfig(nodes=4, epochs=1, batch=4, split=split, validation=0.0)
    train(folder, tmp_path / "run", config)
    measured = facts(tmp_path / "run")
    spread = 0.15 if split == "iid" else 0.01
    assert measured["heterogeneity"] == pytest.approx(heterogeneity, abs=spread)
    assert measured["samples_per_node"] == len(bg.text(folder, context=CONTEXT).train) // 4
    assert (measured["domains"], measured["context"]) == (4, CONTEXT)
    assert read_toml(tmp_path / "run" / "config.toml")["split"] == split


def test_one_domain_for_one_node():
    labels = np.repeat([0, 1, 2, 3, 4], [3, 1, 2, 2, 2])
    parts = by_domain(labels, 5, seed=1)
    assert parts.shape == (5, 3)
    held = [set(labels[part]) for part in parts]
    assert sorted(map(list, held)) == [[0], [1], [2], [3], [4]]
    dealt = by_domain(labels, 2, seed=1, order="by-class")
    assert [sorted(set(labels[part])) for part in dealt] == [[0, 2, 4], [1, 3]]
    for part, count in zip(dealt, (7, 3), strict=True):  # nothing is lost, the rest is repeated
        assert len(set(part.tolist())) == count
    orders = {tuple(labels[by_domain(labels, 5, seed=seed)[:, 0]]) for seed in range(9)}
    assert len(orders) > 3


def test_fewer_domains_than_nodes_are_refused(folder, tmp_path):
    config = bg.RunConfig(nodes=5, epochs=1, batch=4, split="domains")
    with pytest.raises(bg.InvalidArgument, match="nodes=5: must be at most the 4 domains, one"):
        train(folder, tmp_path / "run", config)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_a_domain_that_is_held_out_whole_is_refused(tmp_path):
    """Of four domains three have one window to train on; some seed holds out one of those."""
    for name, letters in LETTERS.items():
        (tmp_path / f"{name}.txt").write_text(letters * (CONTEXT * (3 if name == "a" else 1) + 2))
    labels = bg.text(tmp_path, context=CONTEXT).training_groups()
    assert sorted(np.bincount(labels)[1:]) == [1, 1, 1]
    left = {s: len(np.unique(labels[hold_out(len(labels), 0.1, s)[1]])) for s in range(9)}
    seed = next(s for s in left if left[s] == 3)
    config = bg.RunConfig(nodes=4, epochs=1, batch=4, split="domains", seed=seed)
    complaint = (
        "nodes=4: must be at most 3: of the 4 domains 1 would have no sample to train on, all of "
        "theirs being held out for validation; give validation=0, or domains with more samples"
    )
    with pytest.raises(bg.InvalidArgument, match=complaint):
        train(tmp_path, tmp_path / "run", config)
    assert not (tmp_path / "run").exists()
    train(tmp_path, tmp_path / "run", replace(config, validation=0.0))


@pytest.mark.parametrize("nodes", [1, 3, 70])
def test_a_single_sample_validates_any_number_of_nodes(folder, tmp_path, nodes):
    config = replace(CONFIG, nodes=nodes, validation=1e-9)
    for row in train(folder, tmp_path / "run", config):
        assert row["validation_samples"] == 1
        assert math.isfinite(row["validation_loss"])
    held_out = len(bg.text(folder, context=CONTEXT).train) - 1
    assert facts(tmp_path / "run")["samples_per_node"] == held_out // nodes


def test_iid_is_a_shuffle():
    parts = iid(103, 10, seed=0)
    assert parts.shape == (10, 10)
    assert len(set(parts.ravel().tolist())) == 100
    assert not np.array_equal(parts, iid(103, 10, seed=1))


def test_an_epoch_may_be_some_steps(folder, tmp_path):
    """What is trained on depends on the step alone, not on how long an epoch is."""
    settings = {**vars(CONFIG), "schedule": "constant", "evaluate_every": 100}
    runs = [
        train(folder, tmp_path / str(steps), bg.RunConfig(**{**settings, **changes}))
        for steps, changes in enumerate(
            ({"epochs": 3, "epoch_steps": 4}, {"epochs": 2, "epoch_steps": 6})
        )
    ]
    first, second = (rows[-1] for rows in runs)
    assert first["step"] == second["step"] == 12
    assert (first["epoch"], second["epoch"]) == (3, 2)
    assert first["test_loss"] == second["test_loss"]


def test_a_resumed_run_is_the_whole_one(folder, tmp_path):
    whole = train(folder, tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(row):
        raise Stop

    from basegraph.training.watcher import Watcher

    with pytest.raises(Stop):
        train(folder, tmp_path / "cut", watcher=Watcher(evaluated=stop))
    resumed = train(folder, tmp_path / "cut", resume=True)
    assert [row | {"seconds": 0} for row in resumed] == [row | {"seconds": 0} for row in whole]


def test_compare_and_curves_are_in_bits_per_byte(folder, tmp_path):
    train(folder, tmp_path / "runs" / "text")
    picture = tmp_path / "curves.svg"
    printed = ok("compare", tmp_path / "runs", "--plot", picture)
    assert "test bits/byte" in printed
    assert "M tokens" in printed
    assert "%" not in printed
    drawn = picture.read_text()
    assert "mean test bits per byte" in drawn
    assert "million tokens" in drawn
    assert "accuracy" not in drawn


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        (Next(100), "model='own: Next': does not take all 256 tokens of text"),
        (
            nn.Sequential(nn.Embedding(256, 4), nn.Linear(4, 8)),
            r"gives \(16, 8\) for 16 tokens of a vocabulary of 256; must be logits \(16, 256\)",
        ),
        (nn.Linear(16, 4), r"model='own: Linear': does not take inputs \(16,\): "),
    ],
)
def test_models_that_do_not_fit_are_refused(tmp_path, module, complaint):
    dataset = load("text", context=CONTEXT)
    with pytest.raises(bg.InvalidArgument, match=complaint):
        bg.train(CONFIG, tmp_path / "run", dataset=dataset, module=module)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--dataset", "text:none"], "text:none: there is no file or folder data/none, nor none"),
        (["--dataset", "text:"], "text:: must name a file or folder"),
        (["--dataset", "text", "--tokenizer", "x"], "--tokenizer='x': there is no such file"),
        (["--dataset", "text:empty"], "empty: has no .txt files"),
        (["--dataset", "text:short"], "short.txt: has 99 tokens; a training and a test window of"),
        (["--dataset", "digits", "--tokenizer", "x"], "--tokenizer='x': is for text, not for"),
        (["--dataset", "text", "--split", "by-author"], "--split='by-author': must be dirichlet"),
    ],
)
def test_the_command_line_refuses_in_one_line(tmp_path, flags, complaint):
    (tmp_path / "empty").mkdir()
    (tmp_path / "short.txt").write_text("x" * 99)
    (tmp_path / "short").mkdir()
    (tmp_path / "short.txt").rename(tmp_path / "short" / "short.txt")
    done = run_here("train", *flags, "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
