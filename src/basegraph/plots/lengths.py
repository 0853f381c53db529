"""The paper's figure on lengths: rounds against n, a panel for every k."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from basegraph.plots.canvas import panels, save
from basegraph.plots.colors import looks
from basegraph.topologies.two_states.sequence import TWO_VECTORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOUND = "#8d99ae"
APART = 0.5
"""Rounds over which the lines of topologies with equal lengths are spread, so that all show."""


def draw_lengths(rows: list[dict[str, Any]], names: list[str], path: Path) -> None:
    """Draw the number of rounds until exact consensus against n, a panel for every k.

    Every n has a step of its own for each topology, around the number of its rounds. Below the
    lower bound the panel is gray: no sequence is that short.

    Args:
        rows: {k, n, a length per name, theorem_1, lower_bound}, the columns of the CSV.
        names: The topologies to draw.
        path: The file to write, in the format of its suffix.

    """
    degrees = sorted({row["k"] for row in rows})
    columns = min(2, len(degrees))
    sizes = sorted({row["n"] for row in rows})
    width = 9.0 if columns == 1 else 6.6
    figure, axes = panels(ceil(len(degrees) / columns), columns, width=width, height=2.9)
    for axis in axes[len(degrees) :]:
        axis.set_axis_off()
    for k, axis in zip(degrees, axes, strict=False):
        chosen = sorted((row for row in rows if row["k"] == k), key=lambda row: row["n"])
        _panel(axis, chosen, names, len(sizes))
        axis.set_title(f"k = {k}: at most {k} neighbor{'s' * (k > 1)} a round", fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(5, len(labels)), frameon=False
    )
    shown = f"n = {sizes[0]}" + (f" to {sizes[-1]}" if len(sizes) > 1 else "")
    figure.suptitle(f"rounds until exact consensus, {shown}", fontsize=10)
    save(figure, path)


def _panel(axis: Axes, rows: list[dict[str, Any]], names: list[str], count: int) -> None:
    edges, of_row = _edges([row["n"] for row in rows])

    def bound(column: str, above: float) -> np.ndarray:
        values = np.full(len(edges) - 1, np.nan)
        values[of_row] = [row[column] + above for row in rows]
        return values

    # A number of rounds takes the height from half below it to half above it.
    axis.stairs(
        bound("lower_bound", -0.5), edges, fill=True, color=BOUND, alpha=0.28,
        label="below the lower bound",
    )  # fmt: skip
    axis.stairs(
        bound("theorem_1", 0.5), edges, baseline=None, color=BOUND, linewidth=1.2, linestyle="--",
        label="Theorem 1's bound",
    )  # fmt: skip
    drawn = looks(names)
    shifts = np.linspace(APART / 2, -APART / 2, len(names)) if len(names) > 1 else [0.0]
    width = 3.2 if count <= 300 else 2.0
    left, right = edges[:-1][of_row], edges[1:][of_row]
    for name, shift in zip(names, shifts, strict=True):
        lengths = np.array([np.nan if row[name] is None else row[name] for row in rows])
        two = f"{name}_vectors_per_node" in rows[0]
        axis.hlines(
            lengths + shift, left, right, color=drawn[name].color, linewidth=width,
            label=f"{name} ({TWO_VECTORS})" if two else name,
        )  # fmt: skip
    axis.set_xlim(edges[0], edges[-1])
    axis.locator_params(integer=True)
    axis.set_xlabel("number of nodes n")
    axis.set_ylabel("rounds")
    axis.set_ylim(bottom=0)


def _edges(sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The edges of the steps: n ± 1/2, with gaps where numbers of nodes are left out.

    Returns:
        The edges, and which step each number of nodes has.

    """
    edges, of_row = [sizes[0] - 0.5], []
    for n in sizes:
        if edges[-1] < n - 0.5:
            edges.append(n - 0.5)
        of_row.append(len(edges) - 1)
        edges.append(n + 0.5)
    return np.array(edges), np.array(of_row)
