"""Learning curves: test accuracy against epochs and against bytes sent."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from basegraph.plots.canvas import COLOURS, panels, save


def label(config: dict[str, Any]) -> str:
    """Runs that differ in their seed only share a label, and a curve."""
    if config["algorithm"] == "allreduce-sgd":
        return "all-reduce"
    return f"{config['topology']}, {config['algorithm']}"


def draw_learning(runs: list[dict[str, Any]], paths: list[Path]) -> None:
    """Draw runs {config, rows}; several seeds become a mean and a band of one deviation."""
    groups: dict[str, list[list[dict[str, Any]]]] = defaultdict(list)
    for run in runs:
        groups[label(run["config"])].append(run["rows"])
    figure, axes = panels(1, 2, width=4.6, height=3.4)
    for index, (name, members) in enumerate(groups.items()):
        length = min(len(rows) for rows in members)
        colour = COLOURS[index % len(COLOURS)]
        accuracy = np.array([[r["test_accuracy"] for r in rows[:length]] for rows in members]) * 100
        mean, spread = accuracy.mean(axis=0), accuracy.std(axis=0)
        for axis, column, unit in zip(axes, ("epoch", "bytes_per_node"), (1, 1e6), strict=True):
            x = np.mean([[r[column] / unit for r in rows[:length]] for rows in members], axis=0)
            axis.plot(x, mean, color=colour, label=name)
            if len(members) > 1:
                axis.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15)
    for axis, text in zip(axes, ("epoch", "MB sent per node"), strict=True):
        axis.set_xlabel(text)
        axis.set_ylabel("test accuracy, mean over nodes (%)")
    axes[1].set_xscale("log")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    for path in paths:
        save(figure, path)
