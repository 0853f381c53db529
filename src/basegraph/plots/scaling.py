"""The model of scaling: bytes and seconds of a step, and to the average, against n."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.ticker import FuncFormatter

from basegraph.plots.canvas import panels, plain, plain_ticks, save
from basegraph.plots.colors import looks

PANELS = (
    ("bytes_per_step", 1e-6, "MB a node sends per step"),
    ("seconds_per_step", 1.0, "seconds per step"),
    ("seconds_to_average", 1.0, "seconds to the exact average"),
)


def draw_scaling(rows: list[dict[str, Any]], names: list[str], path: Path, title: str) -> None:
    """Draw bytes and seconds per step, and seconds to the exact average, against n.

    What has a value at some numbers of nodes only is drawn as points: nothing lies in between.

    Args:
        rows: {topology, n, and the keys of `PANELS`}, as `experiments.scaling.rows` gives them.
        names: The topologies to draw, in this order.
        path: The file to write, in the format of its suffix.
        title: What was modeled: the model's size, bandwidth and latency.

    """
    drawn = looks(names)
    figure, axes = panels(1, len(PANELS), width=3.8, height=3.4)
    for axis, (key, unit, label) in zip(axes, PANELS, strict=True):
        for index, name in enumerate(names):
            costs = [r for r in rows if r["topology"] == name]
            shown = [r for r in costs if r[key] is not None]
            points = len(shown) < len(costs) or len(shown) < 12
            axis.plot(
                [r["n"] for r in shown],
                [r[key] * unit for r in shown],
                linestyle="" if len(shown) < len(costs) else drawn[name].linestyle,
                color=drawn[name].color,
                marker="o" if points else None,
                markersize=3,
                linewidth=max(1.2, 4.0 - 0.5 * index),
                label=name,
            )
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(plain))
        plain_ticks(axis.yaxis)
        axis.set_xlabel("number of nodes n")
        axis.set_ylabel(label)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=4, frameon=False, handlelength=3.2
    )
    figure.suptitle(title, fontsize=10)
    save(figure, path)
