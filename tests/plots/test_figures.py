"""Figures: one look per topology, titles that say what is drawn, sizes that can be looked at."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import basegraph as bg
from basegraph.experiments import lengths as measured_lengths
from basegraph.experiments.consensus import measure
from basegraph.experiments.scaling import Network, rows
from basegraph.plots import consensus, learning, lengths, scaling
from basegraph.plots.colors import look
from basegraph.plots.lengths import _edges
from basegraph.plots.rounds import rounds_figure
from support.cli import ok

CONFIG = {"algorithm": "dsgdm", "nodes": 25, "dataset": "digits", "alpha": 0.1, "model": "mlp"}


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Call a figure's function; returns the figure it saves."""

    def draw(module, function, *arguments, **options) -> Figure:
        saved = []
        monkeypatch.setattr(module, "save", lambda figure, path: saved.append(figure))
        getattr(module, function)(*arguments, **options)
        return saved[0]

    return draw


def runs(*topologies: str, seeds=(0,), accuracy=0.9, **fields):
    return [
        {
            "config": {**CONFIG, "topology": topology, "seed": seed, **fields},
            "rows": [
                {
                    "epoch": epoch,
                    "bytes_per_node": 1e6 * epoch,
                    "test_accuracy": accuracy * epoch / 2,
                    "test_accuracy_averaged": accuracy,
                }
                for epoch in (1, 2)
            ],
        }
        for topology in topologies
        for seed in seeds
    ]


def lines(axis):
    return {line.get_label(): line for line in axis.lines}


def test_a_topology_has_the_same_color_in_every_figure(drawn, tmp_path):
    names = ["ring", "base:k=1"]
    path = tmp_path / "figure.png"
    network = Network(bandwidth=25e6, latency=5e-3)
    costs = [row for n in (4, 8) for row in rows(names, n, 10**6, network)]
    curves = [bg.topology(name, n=8) for name in names]
    figures = [
        drawn(scaling, "draw_scaling", costs, names, path, "1 MB"),
        drawn(learning, "draw_learning", runs(*reversed(names)), [path]),
        drawn(consensus, "draw_consensus", measure(curves, 4, [0]), [path]),
    ]
    for figure in figures:
        colors = {to_hex(line.get_color()) for line in figure.axes[0].lines}
        assert colors == {look(name).color for name in names}
    shown = lines(figures[1].axes[0])
    assert to_hex(shown["ring, dsgdm"].get_color()) == look("ring").color


def test_curves_of_one_topology_differ_by_markers(drawn, tmp_path):
    both = [*runs("ring", lr=0.1), *runs("ring", lr=0.2)]
    figure = drawn(learning, "draw_learning", both, [tmp_path / "x.png"])
    first, second = figure.axes[0].lines
    assert first.get_color() == second.get_color() == look("ring").color
    assert first.get_marker() != second.get_marker()


def test_learning_curves_say_what_they_show(drawn, tmp_path):
    both = runs("ring", "base:k=1", seeds=(0, 1, 2), lr=0.1, accuracy=0.97)
    figure = drawn(
        learning, "draw_learning", both, [tmp_path / "x.png"], models=("nodes", "averaged")
    )
    assert figure.get_suptitle() == "n = 25, digits, α = 0.1, mlp, η = 0.1, 3 seeds"
    assert [axis.get_ylabel() for axis in figure.axes[::2]] == [
        "nodes' mean test accuracy (%)",
        "averaged model's test accuracy (%)",
    ]
    own, averaged = (lines(axis)["ring, dsgdm"].get_ydata() for axis in figure.axes[::2])
    assert list(own) == pytest.approx([48.5, 97])
    assert list(averaged) == pytest.approx([97, 97])
    assert figure.axes[0].get_yscale() == "function", "stretched where accuracies are near 100 %"


def test_seeds_are_said_once_by_the_title_or_by_each_label(drawn, tmp_path):
    uneven = [*runs("ring", seeds=(0, 1)), *runs("base:k=1", seeds=(0,))]
    figure = drawn(learning, "draw_learning", uneven, [tmp_path / "x.png"])
    assert "seed" not in figure.get_suptitle()
    assert set(lines(figure.axes[0])) == {"ring, dsgdm, 2 seeds", "base:k=1, dsgdm, 1 seed"}


def test_the_legend_says_which_curves_are_above_the_picture(drawn, tmp_path):
    both = [*runs("ring", accuracy=0.2), *runs("base:k=1", accuracy=0.9)]
    figure = drawn(learning, "draw_learning", both, [tmp_path / "x.png"], highest=30.0)
    assert set(lines(figure.axes[0])) == {"ring, dsgdm", "base:k=1, dsgdm (above)"}


@pytest.mark.parametrize("words", [1, 6, 12])
def test_legends_fit_into_the_figure(drawn, tmp_path, words):
    long = [
        run
        for number in range(7)
        for run in runs("ring", algorithm=f"method{number}:" + "option=0.5," * words)
    ]
    figure = drawn(learning, "draw_learning", long, [tmp_path / "x.png"])
    (legend,) = figure.legends
    inside, whole = legend.get_window_extent(), figure.bbox
    assert (inside.width <= whole.width) == (words < 12), "one column is the least"
    assert inside.y1 <= figure.axes[0].get_tightbbox().y0, "below the panels"


def test_the_title_leaves_out_what_differs():
    assert learning.title_of([{**CONFIG, "alpha": 10.0}, CONFIG]) == "n = 25, digits, mlp"
    assert learning.title_of([{**CONFIG, "split": "iid"}]) == "n = 25, digits, iid, mlp"


def test_no_length_is_drawn_below_the_lower_bound(drawn, tmp_path):
    names = ["base", "short", "euclid"][:2]
    table = [measured_lengths.measure(names, n, 1) for n in range(2, 80)]
    axis = drawn(lengths, "draw_lengths", table, names, tmp_path / "x.png").axes[0]
    (floor,) = [p for p in axis.patches if p.get_label() == "below the lower bound"]
    assert list(floor.get_data().values) == [row["lower_bound"] - 0.5 for row in table]
    for steps in axis.collections:
        for row, ((left, height), (right, _)) in zip(table, steps.get_segments(), strict=True):
            assert (left, right) == (row["n"] - 0.5, row["n"] + 0.5)
            assert abs(height - row[steps.get_label()]) < 0.5
            assert height > row["lower_bound"] - 0.5


def test_lengths_of_scattered_numbers_of_nodes():
    edges, of_row = _edges([2, 3, 7])
    assert edges.tolist() == [1.5, 2.5, 3.5, 6.5, 7.5]
    assert of_row.tolist() == [0, 1, 3]


@pytest.mark.parametrize(("spec", "n"), [("base:k=1", 128), ("base:k=1", 127), ("ring", 5)])
def test_drawings_of_rounds_fit_on_a_screen(spec, n):
    t = bg.topology(spec, n=n)
    figure = rounds_figure(t, steps=t.period)
    width, height = figure.get_size_inches()
    assert max(width, height) * 150 < 4000
    assert width / height > 0.7
    numbers = [text.get_text() for text in figure.axes[0].texts if text.get_text().isdigit()]
    assert "0" in numbers
    assert len(numbers) == (n if n == 5 else 16)


def test_the_model_says_what_it_models(tmp_path):
    csv = tmp_path / "costs.csv"
    shown = ok("bench", "model", "--nodes", "4,8", "--topologies", "ring,all-reduce", "--csv", csv)
    assert "VGG-11, 36.9 MB, links of 200 Mbit/s, full duplex, latency 5 ms" in shown
    assert len(csv.read_text().splitlines()) == 5
    own = ok("bench", "model", "--nodes", "4", "--bytes", "1000000", "--latency", "50us")
    assert "model: 1 MB, links of 200 Mbit/s, full duplex, latency 50 µs" in own
