"""Evaluations on the way may use fewer nodes and samples; the last one uses all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from basegraph.data.catalog import load
from basegraph.data.dataset import Dataset, Split
from basegraph.data.partition import sample
from basegraph.engines import evaluation as evaluate
from basegraph.engines.evaluation import ACCURACY, Questions, totals
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.engines.stacked.view import StackedRun, batched_outputs
from basegraph.models.networks import build
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem
from basegraph.training.selection import TRAINING_PASSES, at_the_end, everything, on_the_way
from support.cli import ok

MNIST = {"test": np.arange(10_000), "validation": np.arange(0, 60_000, 10)}
FEW = {"nodes": 6, "epochs": 2, "evaluate_every": 1, "evaluate_samples": 50, "evaluate_nodes": 2}


def selected(nodes, sets, training_samples, **fields):
    config = RunConfig(nodes=nodes, **fields)
    return on_the_way(config, everything(nodes, sets), training_samples)


def engine(**fields):
    digits = load("digits")
    config = RunConfig(**{**FEW, **fields})
    module = build("mlp", digits.shape, 10, config.seed)
    return StackedEngine(digits, [Problem(config, digits, module)])


@pytest.mark.parametrize("nodes", [1, 25, 100, 1000])
@pytest.mark.parametrize("epochs", [1, 20, 60, 200])
def test_by_default_evaluating_costs_no_more_than_training_in_between(nodes, epochs):
    chosen = selected(nodes, MNIST, 54_000, epochs=epochs)
    between = max(1, epochs // 20)
    passes = (len(chosen.nodes) + 1) * sum(len(part) for part in chosen.sets.values())
    assert passes <= TRAINING_PASSES * 54_000 * between
    assert len(chosen.nodes) >= min(nodes, 25)
    assert all(len(part) >= 1000 for part in chosen.sets.values())
    used_more = (nodes + 1) * 16_000 <= TRAINING_PASSES * 54_000 * between
    assert (chosen.counts() == everything(nodes, MNIST).counts()) == used_more


def test_small_sets_and_few_nodes_are_always_used_whole():
    small = {"test": np.arange(359), "validation": np.arange(143)}
    assert selected(25, small, 1295, epochs=1).counts() == everything(25, small).counts()


def test_numbers_can_be_asked_for():
    whole = everything(100, MNIST)
    chosen = selected(100, MNIST, 54_000, evaluate_samples=700, evaluate_nodes=3)
    assert chosen.counts() == {
        "evaluated_nodes": 3,
        "test_samples": 700,
        "validation_samples": 700,
    }
    assert set(chosen.sets["validation"]) <= set(MNIST["validation"])
    many = selected(100, MNIST, 54_000, evaluate_samples=10**9, evaluate_nodes=10**9)
    every = selected(100, MNIST, 54_000, evaluate_samples=0, evaluate_nodes=0)
    assert many.counts() == every.counts() == whole.counts()


def test_a_sample_is_drawn_from_the_seed_alone():
    one = sample(1000, 100, seed=3, part=1)
    assert np.array_equal(one, sample(1000, 100, seed=3, part=1))
    assert set(sample(1000, 50, seed=3, part=1)) < set(one)
    assert len(set(one)) == 100
    assert not np.array_equal(one, sample(1000, 100, seed=4, part=1))
    assert not np.array_equal(one, sample(1000, 100, seed=3, part=2))


def test_pieces_of_any_size_count_the_same():
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (37, 1, 2, 2), generator=draws).to(torch.uint8)
    labels = torch.randint(0, 3, (37,), generator=draws)
    models = torch.randn(7, 12, generator=draws)
    places = torch.randperm(37, generator=draws)[:31]
    asked = Questions(images, labels, places, torch.zeros(1), torch.ones(1))
    shapes = set()

    def outputs(models, samples):
        shapes.add((len(models), len(samples)))
        return torch.einsum("mkp,bp->mbk", models.view(-1, 3, 4), samples.flatten(1))

    answers = torch.stack(
        [outputs(m[None], images[places].float() / 255)[0].argmax(1) for m in models]
    )
    expected = (answers == labels[places]).sum(dim=1).tolist()
    for together in (1, 3, 7, 100):
        for chunk in (1, 8, 31, 100):
            shapes.clear()
            sums = totals(ACCURACY, outputs, models, asked, together=together, chunk=chunk)
            assert sums.tolist() == expected
            assert shapes == {(min(together, 7), min(chunk, 31))}


def test_what_is_selected_is_what_all_would_give_there():
    """Each node's own accuracy, on a test set of just the selected samples."""
    e = engine()
    for _ in range(5):
        e.advance()
    (run,), data = e.runs, e.nodes.data
    chosen = run.problem.evaluated
    scores = run.evaluate(chosen)
    places = torch.as_tensor(chosen.sets["test"])
    images, labels = data.test_inputs[places], data.test_targets[places]
    samples = (images / 255 - data.mean[:, None, None]) / data.std[:, None, None]

    def share(x_d):
        return float((e.nodes.model.forward(x_d, samples).argmax(1) == labels).double().mean())

    own = [share(run.x_nd[node]) for node in chosen.nodes]
    assert scores["test"].mean == pytest.approx(np.mean(own))
    assert scores["test"].worst == pytest.approx(min(own))
    assert scores["test"].averaged == pytest.approx(share(run.x_nd.mean(dim=0)))


def test_the_last_evaluation_uses_everything_in_the_same_shape(monkeypatch):
    """A compiler would otherwise begin again for the very last evaluation."""
    monkeypatch.setattr(evaluate, "CHUNK", 90)
    nodes = engine().nodes
    shapes = []

    def outputs(models, samples):
        shapes.append((len(models), len(samples)))
        return batched_outputs(nodes)(models, samples)

    run = StackedRun(nodes, 0, outputs, "cpu", one_shape=True)
    run.evaluate(run.problem.evaluated)
    few = set(shapes)
    shapes.clear()
    run.evaluate(run.problem.evaluated_last)
    assert few == set(shapes) == {(3, 30)}


def test_rows_say_what_was_used_and_the_end_is_exact(tmp_path):
    rows = train(RunConfig(**FEW), tmp_path / "few")
    exact = train(
        RunConfig(**{**FEW, "evaluate_samples": 0, "evaluate_nodes": 0}), tmp_path / "all"
    )
    used = ("evaluated_nodes", "test_samples", "validation_samples")
    assert [[row[name] for name in used] for row in rows] == [[2, 50, 50], [6, 359, 143]]
    assert {**rows[-1], "seconds": 0} == {**exact[-1], "seconds": 0}
    assert rows[0]["test_accuracy"] != exact[0]["test_accuracy"]
    assert rows[0]["consensus_distance"] == exact[0]["consensus_distance"]


def test_a_resumed_run_may_evaluate_otherwise(tmp_path):
    config = RunConfig(**FEW)
    rows = train(config, tmp_path / "run")
    again = train(RunConfig(**{**FEW, "evaluate_nodes": 4}), tmp_path / "run", resume=True)
    assert again == rows


def test_the_command_line_says_what_it_uses(tmp_path):
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in FEW.items()]
    text = ok("train", *flags, "--out", tmp_path / "run")
    used = "2 of 6 nodes, 50 of 359 test samples, 50 of 143 validation samples"
    assert f"evaluations before the last use {used}, drawn from the seed" in text
    first, last = (line for line in text.splitlines() if line.startswith("epoch"))
    assert first.endswith(f"MB per node (with {used})")
    assert last.endswith("MB per node")


def test_a_set_without_validation(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (60, 1, 4, 4), dtype=np.uint8)
    split = Split(images, np.arange(60) % 2)
    config = RunConfig(nodes=2, epochs=1, validation=0.0, model="mlp")
    rows = train(config, tmp_path / "run", dataset=Dataset("own", split, split, 2))
    assert rows[-1]["test_samples"] == 60
    assert "validation_samples" not in rows[-1]


def test_the_last_evaluation_may_use_fewer_samples_but_some_of_every_group():
    groups = {"test": np.repeat(np.arange(5), [9000, 900, 90, 9, 1])}
    whole = everything(3, MNIST, groups)
    assert at_the_end(RunConfig(nodes=3), whole) is whole
    fewer = at_the_end(RunConfig(nodes=3, evaluate_last=200), whole)
    assert len(fewer.sets["validation"]) == 200
    assert 200 <= len(fewer.sets["test"]) <= 204
    assert (np.diff(fewer.sets["test"]) > 0).all()
    np.testing.assert_array_equal(fewer.groups["test"], groups["test"][fewer.sets["test"]])
    assert (fewer.group_sizes("test") > 0).all()
    assert len(fewer.group_sizes("test")) == 5


def test_a_run_that_keeps_no_checkpoint_ends_like_one_that_does(tmp_path):
    config = {**FEW, "checkpoint_every": 1}
    kept = train(RunConfig(**config), tmp_path / "kept")
    spared = train(RunConfig(**{**config, "checkpoint_last": False}), tmp_path / "spared")
    assert {**spared[-1], "seconds": 0} == {**kept[-1], "seconds": 0}
    assert (tmp_path / "kept/checkpoint.safetensors").exists()
    assert not (tmp_path / "spared/checkpoint.safetensors").exists()


def test_a_run_whose_last_evaluation_is_asked_to_use_fewer_samples(tmp_path):
    rows = train(RunConfig(**{**FEW, "evaluate_last": 60}), tmp_path / "run")
    assert rows[-1]["test_samples"] == rows[-1]["validation_samples"] == 60
