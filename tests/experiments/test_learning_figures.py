"""The paper's training figures: their cells, presets, curves and milestones."""

from __future__ import annotations

import pytest

import basegraph as bg
from basegraph.experiments.claims import CLAIMS
from basegraph.experiments.figures import FIGURES, PRESET_FIELDS, plain, preset
from basegraph.experiments.learning import Cell, Key, cells_of
from basegraph.experiments.learning_report import _shown, milestones
from basegraph.plots.learning import labels
from basegraph.training.config import RunConfig
from basegraph.training.schedule import learning_rate


def test_the_cells_of_the_figures():
    dsgd = cells_of(FIGURES["dsgd"])
    assert len(dsgd.trained) == 2 * (1 + 10)
    assert not dsgd.unstable
    nodes = cells_of(FIGURES["nodes"])
    assert nodes.same == {Cell(0.1, 24, "dsgdm", "base:k=4"): Cell(0.1, 24, "dsgdm", "base:k=3")}, (
        "as the paper says of n = 24"
    )
    assert set(CLAIMS) == set(FIGURES)


def test_what_is_unstable_is_left_out_whatever_the_method():
    asked = FIGURES["methods"]._replace(
        topologies=("base:k=1", "ring"),
        methods=("d2", "d2:damping=auto", "d2-published", "exact-diffusion"),
    )
    cells = cells_of(asked)
    assert [(c.method, c.topology) for c in cells.unstable] == [
        ("d2", "base:k=1"), ("exact-diffusion", "base:k=1")
    ]  # fmt: skip
    trained = {(c.method, c.topology) for c in cells.trained}
    assert {("d2", "ring"), ("d2:damping=auto", "base:k=1"), ("d2-published", "ring")} < trained
    assert not trained & {(c.method, c.topology) for c in cells.unstable}


def test_every_topology_and_method_has_one_name():
    for figure in FIGURES.values():
        assert plain(figure) == figure
    written = FIGURES["dsgd"]._replace(
        topologies=("ring", "base", "base:redundant=true,k=1", "one-peer-u-equidyn:seed=0"),
        methods=(
            "d2:damping=1", "d2:damping=none", "d2:damping=auto",
            "dsgdm:nesterov=false,momentum=0.90", "dsgdm:nesterov=true,momentum=0.50",
            "adamw:order=adapt-then-combine,beta2=0.95",
        ),
    )  # fmt: skip
    assert plain(written).topologies == ("ring", "base:k=1", "one-peer-u-equidyn")
    assert plain(written).methods == (
        "d2", "d2:damping=auto", "dsgdm", "dsgdm:momentum=0.5,nesterov=true", "adamw:beta2=0.95"
    )  # fmt: skip


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
    assert (*gray,) == ("model", *PRESET_FIELDS)
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


@pytest.mark.parametrize(
    ("sent", "shown"),
    [(71_760, "0.0718"), (1.239e6, "1.24"), (99.96e6, "100"), (123.4e6, "123"), (12345e6, "12345")],
)
def test_small_models_have_cost_something_too(sent, shown):
    rows = [{"test_accuracy": 0.9, "test_accuracy_averaged": 0.9, "bytes_per_node": sent}]
    (row,) = milestones({Cell(0.1, 25, "dsgdm", "ring"): {0: rows}})
    assert row["nodes: MB to good, each seed"] == shown


def test_a_quarter_of_two_evaluations_is_none():
    rows = [{"test_accuracy": a, "test_accuracy_averaged": a, "bytes_per_node": 1e6}
            for a in (0.5, 0.9)]  # fmt: skip
    (row,) = milestones({Cell(0.1, 25, "dsgdm", "ring"): {0: rows}})
    assert (row["nodes % after 1/4"], row["nodes % after 1/2"]) == ("–", "50.00")
