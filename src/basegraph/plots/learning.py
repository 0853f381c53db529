"""Learning curves: test accuracy, or loss, against epochs or tokens and against bytes sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from basegraph.errors import InvalidArgument
from basegraph.plots.canvas import panels, plain, plain_ticks, save
from basegraph.plots.colors import Look, looks, topology_of
from basegraph.training.config import SETTINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURES = (
    ("test_accuracy", 100, "test accuracy (%)"),
    ("test_bits_per_byte", 1, "test bits per byte"),
    ("test_loss", 1, "test loss"),
)
"""What is drawn, in the order of preference: the metric, its factor, and its name."""
MODELS = {"nodes": "", "averaged": "_averaged"}
"""Whose score a row of panels shows -> how its metric ends."""
WHOSE = {"nodes": "nodes' mean", "averaged": "averaged model's"}
MARGIN = 0.8
"""Of the first value that is seen: where the horizontal axis begins."""
MARKERS = ("", "o", "s", "^", "D", "v", "P", "X")
"""Of curves of one topology, which have one color and line style, from the second on."""
MOST_MEGABYTES = 20_000e6
"""Bytes that are still counted in megabytes."""
PANEL, LEGEND_LINE = 3.0, 0.21
"""Inches: the height of a panel, and of a line of the legend."""
STRETCHED = 90.0
"""Accuracies that come above this many percent are drawn by the logarithm of what is missing."""
TICKS = (0, 20, 40, 60, 80, 90, 95, 97, 98, 99, 99.5, 99.8, 99.9)
SAME_CURVE = {name for name, setting in SETTINGS.items() if setting.free} | {
    *("seed", "topology", "algorithm")
}
"""Fields that a label need not name: they change no number, or are in every label."""


class Curve(NamedTuple):
    """The runs of one label: they differ in their seed alone."""

    topology: str
    runs: list[list[dict[str, Any]]]


def labels(configs: list[dict[str, Any]]) -> list[str]:
    """A label for each run: topology, algorithm, and every other field in which the runs differ.

    Runs that differ in their seed only share a label, and a curve.
    """
    names = sorted({name for config in configs for name in config} - SAME_CURVE)
    varied = [n for n in names if len({repr(config.get(n)) for config in configs}) > 1]
    shown = []
    for config in configs:
        head = topology_of(config)
        if head == config["topology"]:  # or the method is named by it
            head += f", {config['algorithm']}"
        shown.append(", ".join([head, *[f"{name}={config.get(name)}" for name in varied]]))
    return shown


def title_of(configs: Sequence[dict[str, Any]]) -> str:
    """What all runs share: n, data, α, model, learning rate.

    Example:
        >>> title_of([{"nodes": 25, "dataset": "digits", "alpha": 0.1, "seed": s} for s in (0, 1)])
        'n = 25, digits, α = 0.1'

    """
    first = configs[0]
    shared = {
        name
        for name in ("nodes", "dataset", "split", "alpha", "model", "lr")
        if first.get(name) is not None and all(c.get(name) == first[name] for c in configs)
    }
    by_alpha = first.get("split", "dirichlet") == "dirichlet"
    parts = [f"n = {first['nodes']}"] if "nodes" in shared else []
    parts += [_data_name(str(first["dataset"]))] if "dataset" in shared else []
    parts += [f"α = {first['alpha']:g}"] if "alpha" in shared and by_alpha else []
    parts += [str(first["split"])] if "split" in shared and not by_alpha else []
    parts += [str(first["model"])] if "model" in shared else []
    parts += [f"η = {first['lr']:g}"] if "lr" in shared else []
    return ", ".join(parts)


def draw_learning(
    runs: list[dict[str, Any]],
    paths: list[Path],
    *,
    models: Sequence[str] = ("nodes",),
    highest: float | None = None,
    title: str | None = None,
) -> None:
    """Draw test accuracy against epochs and against bytes; losses of runs without classes.

    Runs on text are drawn in bits per byte, against tokens and bytes. Several seeds become a mean
    and a band of one standard deviation. The title says how many seeds there are, or the legend
    where curves have different numbers of them. Where accuracies come near 100 %, the axis is
    stretched there.

    Args:
        runs: {config, rows} of every run: its configuration and the rows of its metrics.jsonl.
        paths: Files to write, in the formats of their suffixes.
        models: Rows of panels: `nodes` (the mean of the nodes' own scores), `averaged` (the score
            of the average of their models), or both.
        highest: Where the vertical axis ends, if not where the data do; the horizontal one begins
            with what is seen then, and the legend says which curves stay above.
        title: Above the panels, before the number of seeds; None for what the configurations have
            in common.

    Raises:
        InvalidArgument: Some runs have accuracies and others losses.

    """
    rows_of_all = [row for run in runs for row in run["rows"]]
    measure, scale, shown = next(
        (m for m in MEASURES if any(m[0] in row for row in rows_of_all)), MEASURES[-1]
    )
    has_tokens = all("tokens" in row for row in rows_of_all)
    times = ("tokens", 1e6, "million tokens") if has_tokens else ("epoch", 1, "epoch")
    gigabytes = max((row["bytes_per_node"] for row in rows_of_all), default=0) > MOST_MEGABYTES
    sent = (1e9, "GB sent per node") if gigabytes else (1e6, "MB sent per node")
    axes_of_x = (times, ("bytes_per_node", *sent))
    for run in runs:
        for whose in models:
            if any(measure + MODELS[whose] not in row for row in run["rows"]):
                name, missing = run.get("run", run["config"].get("dataset")), MODELS[whose]
                raise InvalidArgument(
                    "runs", name, f"has no {measure}{missing}, which the others have"
                )
    curves = _curves(runs)
    if highest is not None:
        seen_in = measure + MODELS[models[0]]
        curves = {
            name if _lowest(curve, seen_in) * scale <= highest else f"{name} (above)": curve
            for name, curve in curves.items()
        }
    looked = looks(curve.topology for curve in curves.values())
    figure, axes = panels(len(models), 2, width=4.9, height=PANEL)
    for number, axis in enumerate(axes):
        whose = models[number // 2]
        column, unit, label = axes_of_x[number % 2]
        before: dict[str, int] = defaultdict(int)
        for name, curve in curves.items():
            marker = MARKERS[before[curve.topology] % len(MARKERS)]
            before[curve.topology] += 1
            _draw(
                axis, curve, name, looked[curve.topology], marker,
                (column, unit), (measure + MODELS[whose], scale),
            )  # fmt: skip
        axis.set_xlabel(label)
        axis.set_ylabel(f"{WHOSE[whose]} {shown}")
        if number % 2:
            axis.set_xscale("log")
            plain_ticks(axis.xaxis)
        if highest is not None:
            axis.set_ylim(top=highest)
            score = measure + MODELS[whose]
            seen = [row[column] / unit for row in rows_of_all if row[score] * scale <= highest]
            axis.set_xlim(left=MARGIN * min(seen, default=0) or None)
    best = max(row[measure + MODELS[w]] for row in rows_of_all for w in models) * scale
    if measure == "test_accuracy" and highest is None and best > STRETCHED:
        _stretch(axes, best)
    said = title_of([run["config"] for run in runs]) if title is None else title
    counts = {len(curve.runs) for curve in curves.values()}
    if len(counts) == 1 and counts != {1}:
        said = ", ".join(filter(None, [said, _seeds(*counts)]))
    if said:
        figure.suptitle(said, fontsize=10)
    _add_legend(figure, axes[0])
    for path in paths:
        save(figure, path)


def _curves(runs: list[dict[str, Any]]) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    for name, run in zip(labels([run["config"] for run in runs]), runs, strict=True):
        curves.setdefault(name, Curve(topology_of(run["config"]), [])).runs.append(run["rows"])
    counts = {name: len(curve.runs) for name, curve in curves.items()}
    if len(set(counts.values())) > 1:  # or the title says it for all
        return {f"{name}, {_seeds(counts[name])}": curve for name, curve in curves.items()}
    return curves


def _lowest(curve: Curve, score: str) -> float:
    """The lowest value of the mean over runs."""
    return min(
        sum(float(row[score]) for row in rows) / len(rows)
        for rows in zip(*curve.runs, strict=False)
    )


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def _add_legend(figure: Figure, axis: Axes) -> None:
    """Below the panels, in as many columns as fit, and as much higher as it is."""
    handles, names = axis.get_legend_handles_labels()
    height = figure.get_figheight()
    for columns in (3, 2, 1) if len(names) > 4 else (2, 1):
        legend = figure.legend(
            handles, names,
            loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2,
        )  # fmt: skip
        figure.set_figheight(height + LEGEND_LINE * ceil(len(names) / columns))
        figure.draw_without_rendering()
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _draw(
    axis: Axes,
    curve: Curve,
    name: str,
    look: Look,
    marker: str,
    across: tuple[str, float],
    up: tuple[str, float],
) -> None:
    length = min(len(rows) for rows in curve.runs)
    x, y = (
        np.array([[row[key] for row in rows[:length]] for rows in curve.runs])
        for key in (across[0], up[0])
    )
    x, y = (x / across[1]).mean(axis=0), y * up[1]
    mean = y.mean(axis=0)
    axis.plot(
        x, mean, color=look.color, linestyle=look.linestyle, label=name,
        marker=marker or ("o" if length == 1 else None), markersize=4,
    )  # fmt: skip
    if len(curve.runs) > 1:
        spread = y.std(axis=0, ddof=1)
        axis.fill_between(
            x, mean - spread, mean + spread, color=look.color, alpha=0.13, linewidth=0
        )


def _stretch(axes: list[Axes], best: float) -> None:
    """Percent by the logarithm of what is missing to 100, and a little: 100 itself has a place."""
    floor = max(0.1, (100 - best) / 2)
    for axis in axes:
        low, _ = axis.get_ylim()
        axis.set_yscale(
            "function",
            functions=(
                lambda a: -np.log(np.maximum(100 - np.asarray(a), 0) + floor),
                lambda b: 100 + floor - np.exp(-np.asarray(b)),
            ),
        )
        axis.yaxis.set_major_locator(FixedLocator([tick for tick in TICKS if tick <= best + floor]))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter(FuncFormatter(plain))
        axis.set_ylim(max(low, 0), best + floor / 2)


def _data_name(dataset: str) -> str:
    """A dataset in a title: of `images:PATH` and `text:PATH` the last part of the path."""
    kind, colon, path = dataset.partition(":")
    return kind + colon + path.rstrip("/").rpartition("/")[2]
