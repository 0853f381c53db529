"""Data, models, losses, topologies and methods of users' own: tabular, text, regression."""

from __future__ import annotations

import json
from fractions import Fraction

import networkx
import numpy as np
import pytest
import torch
from torch import nn

import basegraph as bg
from basegraph.algorithms.method import Method, Stateless
from basegraph.data.dataset import DataError
from basegraph.models.flat import FlatModel
from basegraph.models.gradients import Gradients
from basegraph.training.config_files import read_toml
from support.cli import ok, run_here

CONFIG = bg.RunConfig(nodes=4, epochs=6, batch=8, lr=0.1, alpha=1.0, warmup=0, evaluate_every=3)


def table(seed, count=160):
    """Points of the plane, of two classes that a line divides."""
    points = np.random.default_rng(seed).standard_normal((count, 2))
    return points, (points @ [1.0, -2.0] > 0).astype(int)


def classes():
    return bg.Dataset("half planes", bg.Split(*table(0)), bg.Split(*table(1)), classes=2)


def numbers():
    """y = 3 a - b, to be found by least squares."""

    def split(seed):
        points, _ = table(seed)
        return bg.Split(points, points @ [[3.0], [-1.0]])

    return bg.Dataset("plane", split(0), split(1))


def tokens():
    """Sequences whose next token is the one before plus one, modulo five."""

    def split(seed, count):
        first = np.random.default_rng(seed).integers(0, 5, size=(count, 1))
        whole = (first + np.arange(7)) % 5
        return bg.Split(whole[:, :-1], whole[:, 1:])

    return bg.Dataset("counting", split(0, 120), split(1, 40))


class Reader(nn.Module):
    """A table of what comes after each token."""

    def __init__(self):
        super().__init__()
        self.after = nn.Embedding(5, 5)

    def forward(self, x):
        return self.after(x)


def next_token(outputs, targets):
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def line():
    torch.manual_seed(0)
    return nn.Linear(2, 2)


def least_squares():
    torch.manual_seed(0)
    return nn.Linear(2, 1)


def test_tabular_classes(tmp_path):
    rows = bg.train(CONFIG, tmp_path / "run", dataset=classes(), module=line())
    assert rows[-1]["test_accuracy"] > 0.9
    assert "test_loss" not in rows[-1]


def test_regression_reports_losses(tmp_path):
    loss = nn.functional.mse_loss
    run = tmp_path / "run"
    rows = bg.train(CONFIG, run, dataset=numbers(), module=least_squares(), loss=loss)
    last = rows[-1]
    assert last["test_loss_worst"] >= last["test_loss"] > 0
    assert last["test_loss"] < 0.2 < float(np.var(numbers().test.targets))
    assert last["validation_loss"] == pytest.approx(last["test_loss"], abs=0.1)
    assert "test_accuracy" not in last
    facts = json.loads((run / "provenance.json").read_text())["measured"]
    assert facts["loss"] == "mse_loss"
    assert 0 < facts["heterogeneity"] < 1  # the nodes' targets differ, by ten groups of them


def test_the_reported_loss_is_the_models_loss(tmp_path):
    """Without training: the mean over all test samples, whatever they are cut into."""
    module, data = least_squares(), numbers()
    config = bg.RunConfig(nodes=3, epochs=1, batch=8, lr=1e-30, warmup=0)
    (row,) = bg.train(
        config, tmp_path / "run", dataset=data, module=module, loss=nn.functional.l1_loss
    )
    x, y = (torch.as_tensor(part).float() for part in (data.test.inputs, data.test.targets))
    expected = float((module(x) - y).detach().abs().mean())
    assert row["test_loss"] == pytest.approx(expected, rel=1e-6)
    assert row["test_loss_averaged"] == pytest.approx(expected, rel=1e-6)


def test_text(tmp_path):
    config = bg.RunConfig(nodes=4, epochs=20, batch=8, lr=2.0, warmup=0, evaluate_every=20)
    torch.manual_seed(0)
    (row,) = bg.train(config, tmp_path / "run", dataset=tokens(), module=Reader(), loss=next_token)
    assert row["test_loss"] < 0.5 < np.log(5)


def test_a_resumed_regression_is_the_whole_one(tmp_path):
    given = {"dataset": numbers(), "loss": nn.functional.mse_loss}

    class Stop(Exception):
        pass

    def stop(row):
        raise Stop

    whole = bg.train(CONFIG, tmp_path / "whole", module=least_squares(), **given)
    from basegraph.training.watcher import Watcher

    with pytest.raises(Stop):
        bg.train(
            CONFIG,
            tmp_path / "cut",
            module=least_squares(),
            watcher=Watcher(evaluated=stop),
            **given,
        )
    resumed = bg.train(CONFIG, tmp_path / "cut", resume=True, module=least_squares(), **given)
    times = {"seconds"}
    assert [{k: row[k] for k in row.keys() - times} for row in resumed] == [
        {k: row[k] for k in row.keys() - times} for row in whole
    ]


def test_a_topology_of_ones_own(tmp_path):
    t = bg.from_networkx(networkx.star_graph(3))
    run = tmp_path / "run"
    rows = bg.train(CONFIG, run, topology=t, dataset=classes(), module=line())
    arcs = len(t[0].senders)
    assert rows[-1]["bytes_per_node"] == rows[-1]["step"] * arcs / 4 * 6 * 4
    assert read_toml(run / "config.toml")["topology"] == f"own: {t.spec}"
    other = bg.from_networkx(networkx.cycle_graph(4))
    for topology, complaint in (
        (None, "was passed from Python"),
        (other, "was run on other data or models|is 'own"),
        (bg.topology("ring", n=5), "is for n=5; nodes=4"),
    ):
        config = bg.RunConfig(**read_toml(run / "config.toml"))
        with pytest.raises(bg.InvalidArgument, match=complaint):
            bg.train(config, run, resume=True, topology=topology, dataset=classes(), module=line())


def test_a_topology_that_the_catalogue_builds_has_its_name(tmp_path):
    t = bg.topology("short:k=1", n=4)
    bg.train(CONFIG, tmp_path / "run", topology=t, dataset=classes(), module=line())
    assert read_toml(tmp_path / "run" / "config.toml")["topology"] == t.spec
    pairs = [{(0, 1): Fraction(1, 2), (2, 3): Fraction(1, 2)}, {(0, 3): Fraction(1, 3)}]
    swapped = bg.Sequence([bg.Round.from_edges(4, edges) for edges in pairs], "base:k=1")
    bg.train(CONFIG, tmp_path / "own", topology=swapped, dataset=classes(), module=line())
    assert read_toml(tmp_path / "own" / "config.toml")["topology"] == "own: base:k=1"


def test_a_method_of_ones_own(tmp_path):
    def step(x, grad, state, lr, mix):
        return mix(x - lr * grad.sign()), state

    with pytest.raises(bg.InvalidArgument, match=r"algorithm='sign-dsgd': .* linear=False"):
        whole = Method("sign-dsgd", lambda x: Stateless(), step)
        bg.train(CONFIG, tmp_path / "run", algorithm=whole, dataset=classes(), module=line())
    signs = Method("sign-dsgd", lambda x: Stateless(), step, linear=False)
    run = tmp_path / "run"
    rows = bg.train(CONFIG, run, algorithm=signs, dataset=classes(), module=line())
    assert rows[-1]["test_accuracy"] > 0.8
    assert read_toml(run / "config.toml")["algorithm"] == "own: sign-dsgd"
    config = bg.RunConfig(**read_toml(run / "config.toml"))
    with pytest.raises(bg.InvalidArgument, match=r"algorithm='own: sign-dsgd': was passed"):
        bg.train(config, run, resume=True, dataset=classes(), module=line())


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"module": least_squares()}, "loss=None: must be given: plane has no classes"),
        (
            {"module": nn.Linear(3, 1), "loss": nn.functional.mse_loss},
            r"model='own: Linear': does not take inputs \(2,\): ",
        ),
        (
            {"module": least_squares(), "loss": nn.functional.nll_loss},
            "loss='nll_loss': does not take outputs",
        ),
        (
            {"module": least_squares(), "loss": lambda outputs, targets: (outputs - targets) ** 2},
            "loss=.*: must be one number",
        ),
        ({"loss": nn.functional.mse_loss}, "model='mlp': needs images with class labels"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, given, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        bg.train(CONFIG, tmp_path / "run", dataset=numbers(), **given)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize("name", ["topology", "algorithm", "dataset", "module", "loss"])
def test_names_belong_into_the_configuration(tmp_path, name):
    with pytest.raises(bg.InvalidArgument, match=f"{name}='ring': must be a "):
        bg.train(CONFIG, tmp_path / "run", **{name: "ring"})
    assert not (tmp_path / "run").exists()


def test_augmentations_are_for_images(tmp_path):
    config = bg.RunConfig(nodes=4, augment="crop")
    with pytest.raises(bg.InvalidArgument, match="augment='crop': is for images"):
        bg.train(config, tmp_path / "run", dataset=classes(), module=line())


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: bg.Split(np.zeros(5), [0] * 5), "5 inputs of shape"),
        (lambda: bg.Split(np.zeros((5, 2)), [0] * 4), "do not match 4 targets"),
        (lambda: bg.Split(np.zeros((5, 2)), ["a"] * 5), "targets must be integers or floating"),
        (lambda: bg.Split(np.full((5, 2), np.inf), [0] * 5), "inputs must be finite"),
        (
            lambda: bg.Dataset("d", numbers().train, numbers().test, classes=2),
            "labels must be integers, not float64",
        ),
        (
            lambda: bg.Dataset("d", classes().train, tokens().test),
            "training and test inputs differ in shape",
        ),
        (
            lambda: bg.Dataset("d", numbers().train, numbers().test, groups=np.zeros(3, int)),
            "groups must be 160 integers",
        ),
    ],
)
def test_bad_data_are_refused(make, complaint):
    with pytest.raises(DataError, match=complaint):
        make()


def test_groups_decide_who_holds_what(tmp_path):
    """Two groups and a small α: nodes hold samples of few groups."""
    data = numbers()
    groups = np.arange(160) % 2
    grouped = bg.Dataset("grouped", data.train, data.test, groups=groups)
    config = bg.RunConfig(nodes=4, epochs=1, batch=8, alpha=1e-3, validation=0.0)
    run = tmp_path / "run"
    bg.train(config, run, dataset=grouped, module=least_squares(), loss=nn.functional.mse_loss)
    facts = json.loads((run / "provenance.json").read_text())["measured"]
    assert facts["heterogeneity"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("flatten", [False, True])
def test_vectors_take_the_stacked_way(flatten):
    """Batched products over nodes give what one node after another gives."""
    layers = [nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)]
    module = nn.Sequential(*([nn.Flatten()] if flatten else []), *layers)
    model = FlatModel(module)
    x_nd = torch.randn(4, model.size, generator=torch.Generator().manual_seed(0))
    samples = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(1))
    targets = torch.randn(4, 6, 2, generator=torch.Generator().manual_seed(2))
    stacked = Gradients(model, nn.functional.mse_loss, "stacked")
    assert stacked.network is not None
    assert stacked.network.takes(samples)
    one, loop = stacked(x_nd, samples, targets), Gradients(model, nn.functional.mse_loss, "loop")
    other = loop(x_nd, samples, targets)
    assert torch.allclose(one[0], other[0], atol=1e-6)
    assert torch.allclose(one[1], other[1], atol=1e-6)


def test_images_layers_are_not_used_for_vectors():
    """A group norm of vectors has no stacked form, and must not be taken for one of images."""
    module = nn.Sequential(nn.Linear(3, 4), nn.GroupNorm(2, 4), nn.ReLU(), nn.Linear(4, 2))
    gradients = Gradients(FlatModel(module), nn.functional.cross_entropy, "stacked")
    x_nd = gradients.model.initial().repeat(2, 1)
    samples, labels = torch.randn(2, 5, 3), torch.zeros(2, 5, dtype=torch.int64)
    losses, _ = gradients(x_nd, samples, labels)
    expected = nn.functional.cross_entropy(module(samples[0]), labels[0]).detach()
    assert float(losses[0]) == pytest.approx(float(expected), rel=1e-5)


def test_a_catalogue_method_is_recorded_with_its_options(tmp_path):
    method = bg.algorithm("dsgdm", momentum=0.5)
    run = tmp_path / "run"
    given = {"dataset": classes(), "module": line()}
    bg.train(CONFIG, run, algorithm=method, **given)
    saved = read_toml(run / "config.toml")
    assert (saved["algorithm"], saved["momentum"]) == ("dsgdm", 0.5)
    with pytest.raises(
        bg.InvalidArgument,
        match=r"momentum=0\.9: differs from the run that is resumed, which has 0\.5",
    ):
        bg.train(CONFIG, run, resume=True, algorithm=bg.algorithm("dsgdm"), **given)
    bg.train(bg.RunConfig(**saved), run, resume=True, **given)  # the configuration says it all


def test_another_loss_is_another_run(tmp_path):
    given = {"dataset": numbers(), "module": least_squares()}
    bg.train(CONFIG, tmp_path / "run", loss=nn.functional.mse_loss, **given)
    with pytest.raises(bg.InvalidArgument, match="was run on other data or models"):
        bg.train(CONFIG, tmp_path / "run", resume=True, loss=nn.functional.l1_loss, **given)


def test_regressions_are_compared_by_their_losses(tmp_path):
    loss = nn.functional.mse_loss
    bg.train(CONFIG, tmp_path / "loss", dataset=numbers(), module=least_squares(), loss=loss)
    bg.train(CONFIG, tmp_path / "accuracy", dataset=classes(), module=line())
    picture = tmp_path / "curves.png"
    assert "test loss" in ok("compare", tmp_path / "loss", "--plot", picture)
    assert picture.stat().st_size > 1000
    assert "test %" in ok("compare", tmp_path)
    mixed = run_here("compare", tmp_path, "--plot", picture, "--force")
    assert mixed.returncode == 2
    assert "has no test_accuracy, which the others have" in mixed.stderr
