"""Consensus error against rounds, on a logarithmic scale: a panel for every number of nodes."""

from __future__ import annotations

from collections import defaultdict
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from basegraph.errors import InvalidArgument
from basegraph.plots.canvas import panels, save
from basegraph.plots.colors import Look, looks
from basegraph.topologies.analysis._gossip import FLOOR
from basegraph.topologies.core.round import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 30
LOWEST = 1e-32
"""Errors below this, zero among them, are drawn here: at the floor of float64."""


def draw_consensus(rows: list[dict[str, Any]], paths: list[Path], note: str = "") -> None:
    """Draw the consensus error against the round, a panel for every number of nodes.

    Several seeds become a median and a band from the smallest to the largest. A curve that drops
    to rounding at once, as exact consensus does, ends with a marker at that round.

    Args:
        rows: {n, topology, degree, seed, step, error}, the columns of the CSV.
        paths: Files to write, in the formats of their suffixes.
        note: A line below the panels.

    Raises:
        InvalidArgument: There are too many numbers of nodes.

    """
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    if len(sizes) > MOST_PANELS:
        raise InvalidArgument("n", len(sizes), f"at most {MOST_PANELS} panels can be drawn")
    specs = list(dict.fromkeys(row["topology"] for row in rows))
    drawn = looks(specs)
    columns = min(3, len(sizes))
    width, height = (6.4, 4.4) if len(sizes) == 1 else (4.2, 3.2)
    figure, axes = panels(ceil(len(sizes) / columns), columns, width=width, height=height)
    for axis in axes[len(sizes) :]:
        axis.set_axis_off()
    for n, axis in zip(sizes, axes, strict=False):
        chosen = [row for row in rows if row["n"] == n]
        for index, spec in enumerate(specs):
            curve = [row for row in chosen if row["topology"] == spec]
            _curve(axis, curve, drawn[spec], _width(index))
        axis.set_yscale("log")
        axis.locator_params(axis="x", integer=True)
        if len(sizes) > 1:
            axis.set_title(f"n = {n}", fontsize=10)
        axis.set_xlabel("round")
        axis.set_ylabel("consensus error")
    handles = [
        Line2D([], [], color=look.color, linestyle=look.linestyle, linewidth=_width(index))
        for index, look in enumerate(drawn.values())
    ]
    labels = [f"{spec} ({_degrees(rows, spec, sizes)})" for spec in specs]
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=2 if len(sizes) == 1 else min(4, 2 * columns),
        frameon=False,
        handlelength=3.2,
        title="in brackets: largest number of neighbors in a round"
        + (" for each n" if len(sizes) > 1 else "")
        + (f"; {note}" if note else ""),
        title_fontsize=8,
    )
    seeds = len({row["seed"] for row in rows})
    starts = f"{seeds} Gaussian starts: median, least and most" if seeds > 1 else "a Gaussian start"
    size = f"n = {sizes[0]}: " if len(sizes) == 1 else ""
    figure.suptitle(f"{size}consensus error by round, from {starts}", fontsize=10)
    for path in paths:
        save(figure, path)


def _width(index: int) -> float:
    """Earlier curves are thicker, so that one that coincides with a later one still shows."""
    return max(1.2, 3.2 - 0.3 * index)


def _degrees(rows: list[dict[str, Any]], spec: str, sizes: list[int]) -> str:
    """The degree for every n, once if it is always the same; – where there is no curve."""
    degrees = {row["n"]: str(row["degree"]) for row in rows if row["topology"] == spec}
    each = [degrees.get(n, "–") for n in sizes]
    return each[0] if len(set(each)) == 1 else ", ".join(each)


def _curve(axis: Axes, rows: list[dict[str, Any]], look: Look, width: float) -> None:
    if not rows:
        return
    by_step: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        by_step[row["step"]].append(row["error"])
    steps = sorted(by_step)
    errors = np.array([by_step[step] for step in steps])
    end = reached(np.median(errors, axis=1))
    shown = np.maximum(errors[: len(steps) if end is None else end + 1], LOWEST)
    if end is not None:
        shown[end] = LOWEST
    middle, low, high = np.median(shown, axis=1), shown.min(axis=1), shown.max(axis=1)
    steps = steps[: len(shown)]
    lone = "o" if len(steps) == 1 else None
    color = look.color
    axis.plot(steps, middle, color=color, linewidth=width, linestyle=look.linestyle, marker=lone)
    if shown.shape[1] > 1:
        axis.fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)
    if end is not None:
        axis.plot(end, LOWEST, "o", color=color, markersize=2.5 * width)


def reached(errors: FloatArray) -> int | None:
    """The round after which consensus is exact: rounding is all that is left, at one stroke.

    A geometric decay also gets that low in the end, but not from far above in a single round.
    """
    done = np.flatnonzero(errors <= FLOOR * max(errors[0], LOWEST))
    if not errors[0]:
        return 0
    if not len(done) or errors[done[0] - 1] <= 1e6 * FLOOR * errors[0]:
        return None
    return int(done[0])
