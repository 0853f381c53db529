"""Learning curves: test accuracy, or loss, against epochs or tokens and against bytes sent."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.plots.canvas import COLORS, panels, save
from basegraph.training.config import SETTINGS

MEASURES = (
    ("test_accuracy", 100, "test accuracy (%)"),
    ("test_bits_per_byte", 1, "test bits per byte"),
    ("test_loss", 1, "test loss"),
)
"""What is drawn, in the order of preference: the metric, its factor, and its name."""
STYLES = ("-", "--", ":")
SAME_CURVE = {name for name, setting in SETTINGS.items() if setting.free} | {
    *("seed", "topology", "algorithm")
}
"""Fields that a label need not name: they change no number, or are in every label."""


def labels(configs: list[dict[str, Any]]) -> list[str]:
    """A label for each run: topology, algorithm, and every other field in which the runs differ.

    Runs that differ in their seed only share a label, and a curve.
    """
    names = sorted({name for config in configs for name in config} - SAME_CURVE)
    varied = [n for n in names if len({repr(config.get(n)) for config in configs}) > 1]
    shown = []
    for config in configs:
        central = config["algorithm"].startswith("allreduce-")
        head = "all-reduce" if central else f"{config['topology']}, {config['algorithm']}"
        shown.append(", ".join([head, *[f"{name}={config.get(name)}" for name in varied]]))
    return shown


def draw_learning(
    runs: list[dict[str, Any]],
    paths: list[Path],
    *,
    highest: float | None = None,
    averaged: bool = False,
) -> None:
    """Draw test accuracy against epochs and against bytes; losses of runs without classes.

    Runs on text are drawn in bits per byte, against tokens and bytes. Several seeds become a mean
    and a band of one standard deviation.

    Args:
        runs: {config, rows} of every run: its configuration and the rows of its metrics.jsonl.
        paths: Files to write, in the formats of their suffixes.
        highest: Where the vertical axis ends, if not where the data do.
        averaged: Whether to draw the average of all models in place of the nodes' own.

    Raises:
        InvalidArgument: Some runs have accuracies and others losses.

    """
    rows_of_all = [row for run in runs for row in run["rows"]]
    measure, scale, shown = next(
        (m for m in MEASURES if any(m[0] in row for row in rows_of_all)), MEASURES[-1]
    )
    if averaged:
        measure = f"{measure}_averaged"
    whose = "averaged:" if averaged else "mean"
    has_tokens = all("tokens" in row for row in rows_of_all)
    times = ("tokens", 1e6, "million tokens") if has_tokens else ("epoch", 1, "epoch")
    axes_of_x = (times, ("bytes_per_node", 1e6, "MB sent per node"))
    for run in runs:
        if any(measure not in row for row in run["rows"]):
            name = run.get("run", run["config"]["dataset"])
            raise InvalidArgument("runs", name, f"has no {measure}, which the others have")
    groups: dict[str, list[list[dict[str, Any]]]] = defaultdict(list)
    for name, run in zip(labels([run["config"] for run in runs]), runs, strict=True):
        groups[name].append(run["rows"])
    figure, axes = panels(1, 2, width=4.6, height=3.4)
    for index, (name, members) in enumerate(groups.items()):
        length = min(len(rows) for rows in members)
        color = COLORS[index % len(COLORS)]
        values = np.array([[r[measure] for r in rows[:length]] for rows in members]) * scale
        mean, spread = values.mean(axis=0), values.std(axis=0)
        for axis, (column, unit, _) in zip(axes, axes_of_x, strict=True):
            x = np.mean([[r[column] / unit for r in rows[:length]] for rows in members], axis=0)
            style = STYLES[index // len(COLORS) % len(STYLES)]
            axis.plot(x, mean, color=color, linestyle=style, label=name)
            if len(members) > 1:
                axis.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.15)
    for axis, (_, _, text) in zip(axes, axes_of_x, strict=True):
        axis.set_xlabel(text)
        axis.set_ylabel(f"{whose} {shown}")
        if highest is not None:
            axis.set_ylim(top=highest)
    axes[1].set_xscale("log")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    for path in paths:
        save(figure, path)
