"""The paper's figure on lengths: rounds against n, a panel for every k."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

from basegraph.plots.canvas import COLORS, panels, save
from basegraph.topologies.two_states.sequence import TWO_VECTORS

MARKERS = (("o", 5.0), (".", 3.0), ("s", 6.5), ("+", 4.0), ("D", 8.0))
"""(shape, size): equal lengths of different topologies stay visible on top of each other."""


def draw_lengths(rows: list[dict[str, Any]], names: list[str], path: Path) -> None:
    """Draw the number of rounds until exact consensus against n, a panel for every k.

    Args:
        rows: {k, n, a length per name, theorem_1, lower_bound}, the columns of the CSV.
        names: The topologies to draw.
        path: The file to write, in the format of its suffix.

    """
    degrees = sorted({row["k"] for row in rows})
    columns = min(3, len(degrees))
    figure, axes = panels(ceil(len(degrees) / columns), columns, width=3.6, height=2.7)
    for axis in axes[len(degrees) :]:
        axis.set_axis_off()
    for k, axis in zip(degrees, axes, strict=False):
        chosen = [row for row in rows if row["k"] == k]
        sizes = [row["n"] for row in chosen]
        axis.plot(
            sizes,
            [row["theorem_1"] for row in chosen],
            color="#8d99ae",
            linewidth=0.9,
            linestyle="--",
            marker="_" if len(chosen) == 1 else None,
            label="Theorem 1's bound",
        )
        for name, color, (marker, size) in zip(names, COLORS, MARKERS, strict=False):
            lengths = [row[name] if row[name] is not None else float("nan") for row in chosen]
            label = f"{name} ({TWO_VECTORS})" if f"{name}_vectors_per_node" in chosen[0] else name
            axis.plot(sizes, lengths, marker, markersize=size, mfc="none", color=color, label=label)
        axis.plot(
            sizes,
            [row["lower_bound"] for row in chosen],
            color="#8d99ae",
            linewidth=0.9,
            marker="_" if len(chosen) == 1 else None,
            label="lower bound",
        )
        axis.locator_params(integer=True)
        axis.set_title(f"k = {k}")
        axis.set_xlabel("number of nodes n")
        axis.set_ylabel("rounds")
        axis.set_ylim(bottom=0)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(labels) if columns > 1 else 2,
        frameon=False,
    )
    save(figure, path)
