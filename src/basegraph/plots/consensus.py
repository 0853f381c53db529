"""Consensus error against rounds, on a logarithmic scale: a panel for every number of nodes."""

from __future__ import annotations

from collections import defaultdict
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from basegraph.consensus import FLOOR
from basegraph.plots.canvas import COLOURS, panels, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOWEST = 1e-32
"""Errors below this, zero among them, are drawn here: at the floor of float64."""


def draw_consensus(rows: list[dict[str, Any]], paths: list[Path]) -> None:
    """Draw rows of {n, topology, degree, seed, step, error}, the columns of the CSV.

    Several seeds become a median and a band from the smallest to the largest. A curve that
    reaches exact consensus ends with a marker at the round that reached it.
    """
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    specs = list(dict.fromkeys(row["topology"] for row in rows))
    colours = {spec: COLOURS[i % len(COLOURS)] for i, spec in enumerate(specs)}
    columns = min(3, len(sizes))
    height = 3.2 if len(sizes) > 1 else 3.8
    figure, axes = panels(ceil(len(sizes) / columns), columns, width=4.2, height=height)
    for axis in axes[len(sizes) :]:
        axis.set_axis_off()
    for n, axis in zip(sizes, axes, strict=False):
        chosen = [row for row in rows if row["n"] == n]
        for i, spec in enumerate(specs):
            curve = [row for row in chosen if row["topology"] == spec]
            # Earlier curves are thicker, so that one that coincides with a later one still shows.
            _curve(axis, curve, colours[spec], max(1.2, 3.0 - 0.3 * i))
        axis.set_yscale("log")
        axis.locator_params(axis="x", integer=True)
        axis.set_title(f"n = {n}")
        axis.set_xlabel("round")
        axis.set_ylabel("consensus error")
    handles, labels = [], []
    for spec in specs:
        found = {row["degree"] for row in rows if row["topology"] == spec}
        line = next(line for a in axes for line in a.get_lines() if line.get_label() == spec)
        handles.append(line)
        labels.append(f"{spec} ({', '.join(map(str, sorted(found)))})")
    place = "outside right center" if len(sizes) == 1 else "outside lower center"
    ncols = 1 if len(sizes) == 1 else 4
    figure.legend(
        handles, labels, loc=place, ncols=ncols, frameon=False, title="neighbours per round: (k)"
    )
    for path in paths:
        save(figure, path)


def _curve(axis: Axes, rows: list[dict[str, Any]], colour: str, width: float) -> None:
    if not rows:
        return
    by_step: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        by_step[row["step"]].append(max(row["error"], LOWEST))
    steps = sorted(by_step)
    errors = np.array([by_step[step] for step in steps])
    middle, low, high = np.median(errors, axis=1), errors.min(axis=1), errors.max(axis=1)
    start = max(middle[0], LOWEST)
    done = np.flatnonzero(middle <= FLOOR * start)
    end = int(done[0]) + 1 if len(done) else len(steps)
    drawn = np.where(middle[:end] <= FLOOR * start, LOWEST, middle[:end])
    axis.plot(steps[:end], drawn, color=colour, linewidth=width, label=rows[0]["topology"])
    if errors.shape[1] > 1:
        axis.fill_between(steps[:end], low[:end], high[:end], color=colour, alpha=0.18, linewidth=0)
    if len(done):
        axis.plot(steps[end - 1], LOWEST, "o", color=colour, markersize=2.5 * width)
