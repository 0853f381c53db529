"""The rounds of a topology in the paper's style: a circle of nodes for every round."""

from __future__ import annotations

from math import ceil, cos, hypot, pi, sin
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from basegraph.errors import InvalidArgument
from basegraph.plots.canvas import panels, save
from basegraph.topology.origin import Origin
from basegraph.topology.round import Round
from basegraph.topology.sequence import Topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NODES = 128
MOST_ROUNDS = 64
LABELLED = 16
"""Up to this many edges in a round each carries its weight; beyond, the panel's title does."""
CLUTTERED = 4
"""More edges than this that all have one weight do not repeat it: the title says it once."""
SPACING = 0.36
"""Inches between two nodes on the circle."""
WIDEST = 15.0
"""Inches: panels go to the next row beyond."""

# The colours of the paper's pseudo-code, darkened where a thin line would not show.
COLOURS = {
    Origin.UNSPECIFIED: "#33312e",
    Origin.HYPER_HYPERCUBE: "#33312e",
    Origin.LINE_11: "#ee8fa6",
    Origin.LINE_15: "#4a7fc1",
    Origin.LINE_20: "#e8c400",
    Origin.LINE_25: "#3cb43c",
    Origin.LINE_27: "#74c4ec",
    Origin.ACROSS: "#000000",
    Origin.MIRROR: "#7a5195",
    Origin.MIX: "#d1495b",
    Origin.MIX_IDLE: "#e6b8a2",
    Origin.MERGE: "#2a9d8f",
}


def draw_rounds(topology: Topology, path: Path, *, steps: int) -> None:
    """One panel per round; edge colours by origin, weights on the edges, arrows if directed."""
    if topology.n > MOST_NODES:
        raise InvalidArgument("n", topology.n, f"at most {MOST_NODES} nodes can be drawn")
    if steps > MOST_ROUNDS:
        raise InvalidArgument("steps", steps, f"at most {MOST_ROUNDS} rounds can be drawn")
    size = max(2.5, topology.n * SPACING / pi + 0.7)
    columns = min(steps, max(1, int(WIDEST / size)))
    figure, axes = panels(ceil(steps / columns), columns, width=size, height=size + 0.25)
    rounds = [topology.round(step) for step in range(steps)]
    for step, axis in enumerate(axes):
        axis.set_axis_off()
        if step < steps:
            _draw_round(axis, rounds[step], topology.symmetric)
            axis.set_title(_title(step, rounds[step], topology.symmetric), fontsize=9)
    seen = sorted({int(origin) for r in rounds for origin in r.origins})
    handles = [
        Line2D([], [], color=COLOURS[Origin(o)], linewidth=2.5, label=Origin(o).label)
        for o in seen
        if Origin(o).label
    ]
    if handles:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=min(len(handles), 5), frameon=False
        )
    figure.suptitle(f"{topology.spec}, n = {topology.n}", fontsize=10)
    save(figure, path)


def _draw_round(axis: Axes, r: Round, symmetric: bool) -> None:
    places = [(sin(2 * pi * i / r.n), cos(2 * pi * i / r.n)) for i in range(r.n)]
    axis.set_aspect("equal")
    margin = 1 + 0.9 / max(3.0, r.n * SPACING / pi)
    axis.set_xlim(-margin, margin)
    axis.set_ylim(-margin, margin)
    labelled = _is_labelled(r, symmetric)
    for i, j, numerator, denominator, origin in zip(
        r.receivers.tolist(),
        r.senders.tolist(),
        r.numerators.tolist(),
        r.denominators.tolist(),
        r.origins.tolist(),
        strict=True,
    ):
        if symmetric and i > j:
            continue
        bend = _bend(i, j, r.n)
        arrow = {
            "arrowstyle": "-" if symmetric else "-|>",
            "color": COLOURS[Origin(origin)],
            "linewidth": 2,
            "shrinkA": 6.5,
            "shrinkB": 6.5,
            "connectionstyle": f"arc3,rad={bend}",
        }
        axis.annotate("", places[i], places[j], arrowprops=arrow)
        if labelled:
            _label(axis, places[j], places[i], bend, f"{numerator}/{denominator}")
    axis.plot(*zip(*places, strict=True), "o", markersize=13, color="white", mec="#33312e")
    for i, place in enumerate(places):
        axis.annotate(str(i), place, ha="center", va="center_baseline", fontsize=7.5)


def _bend(receiver: int, sender: int, n: int) -> float:
    """Edges bend towards the centre, the more the fewer nodes they pass over; diameters do not."""
    clockwise = (receiver - sender) % n
    passed = min(clockwise, n - clockwise)
    bend = 0.3 * (1 - 2 * passed / n) if passed > 1 else 0.0
    return bend if clockwise == passed else -bend


def _label(
    axis: Axes, start: tuple[float, float], end: tuple[float, float], bend: float, text: str
) -> None:
    """The weight beside the edge, off the middle of long ones, where chords would meet."""
    across, up = end[0] - start[0], end[1] - start[1]
    length = hypot(across, up)
    along = 0.5 if length < 1.2 else 0.3
    bulge = 2 * along * (1 - along) * bend
    spot = (start[0] + along * across + bulge * up, start[1] + along * up - bulge * across)
    normal = (-up / length, across / length)
    if normal[0] * spot[0] + normal[1] * spot[1] > 0:  # towards the centre, where there is room
        normal = (-normal[0], -normal[1])
    axis.annotate(
        text,
        spot,
        xytext=(9 * normal[0], 7 * normal[1]),
        textcoords="offset points",
        fontsize=7,
        ha="center",
        va="center_baseline",
    )


def _is_labelled(r: Round, symmetric: bool) -> bool:
    edges = len(r.receivers) // (2 if symmetric else 1)
    return edges <= (LABELLED if len(_weights(r)) > 1 else CLUTTERED)


def _weights(r: Round) -> list[tuple[int, int]]:
    return sorted({*zip(r.numerators.tolist(), r.denominators.tolist(), strict=True)})


def _title(step: int, r: Round, symmetric: bool) -> str:
    weights = _weights(r)
    if _is_labelled(r, symmetric):
        return f"round {step}"
    shown = ", ".join(f"{a}/{b}" for a, b in weights[:4]) + (", …" if len(weights) > 4 else "")
    return f"round {step}: {'all weights' if len(weights) == 1 else 'weights'} {shown}"
