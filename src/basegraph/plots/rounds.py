"""The rounds of a topology in the paper's style: a circle of nodes for every round."""

from __future__ import annotations

from math import ceil, cos, dist, log2, pi, sin, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from matplotlib.lines import Line2D

from basegraph.errors import InvalidArgument
from basegraph.plots.canvas import panels, save
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.sequence import TWO_VECTORS, TwoStateSequence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_DRAWN_NODES = 128
MOST_ROUNDS = 64
LABELED = 16
"""Up to this many edges in a round each carries its weight; beyond, the panel's title does."""
CLUTTERED = 4
"""More edges than this that all have one weight do not repeat it: the title says it once."""
SPACING = 0.36
"""Inches between two nodes on the circle."""
CROWDING = 0.17
"""Inches that a panel grows with every weight in it."""
CAPTION = 0.08
"""Inches of panel for a letter of its caption."""
WIDEST = 15.0
"""Inches: panels go to the next row beyond, unless the grid becomes taller than wide."""
LARGEST = 4.6
"""Inches of a panel for its nodes: beyond, the nodes become smaller."""
NUMBERED = 0.6
"""Nodes smaller than this share of their usual size have no number inside; some have it outside."""
MOST_NUMBERS = 16
"""Numbers around a circle whose nodes are too small for them."""
ALONG = (0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78)
"""Where on an edge its weight may stand, the best first."""
CLEAR = 0.3
"""More room than this around a weight, in radii of the circle, is as good as any."""

Point = tuple[float, float]

# The colors of the paper's pseudo-code, darkened where a thin line would not show.
ORIGIN_COLORS = {
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


def draw_rounds(topology: Topology | TwoStateSequence, path: Path, *, steps: int) -> None:
    """Draw a topology's rounds, one panel each: nodes on a circle, edges colored by origin.

    Args:
        topology: What to draw.
        path: The file to write, in the format of its suffix.
        steps: How many rounds, from step 0.

    Raises:
        InvalidArgument: There are too many nodes or rounds to be seen.

    """
    save(rounds_figure(topology, steps=steps), path)


def rounds_figure(topology: Topology | TwoStateSequence, *, steps: int) -> Figure:
    """The figure of a topology's rounds, one panel each; arguments as for `draw_rounds`.

    Weights stand on the edges where there is room; directed edges are arrows. With two vectors per
    node the edges are messages, and the panel's title says what they hold and how they are weighed.
    """
    if topology.n > MOST_DRAWN_NODES:
        raise InvalidArgument("n", topology.n, f"at most {MOST_DRAWN_NODES} nodes can be drawn")
    if steps > MOST_ROUNDS:
        raise InvalidArgument("steps", steps, f"at most {MOST_ROUNDS} rounds can be drawn")
    captions = [""] * steps
    if isinstance(topology, TwoStateSequence):
        captions = [topology.round(step).caption() for step in range(steps)]
        rounds = [topology.round(step).messages() for step in range(steps)]
    else:
        rounds = [topology.round(step) for step in range(steps)]
    labeled = [r for r, said in zip(rounds, captions, strict=True) if not said]
    labeled = [r for r in labeled if _is_labeled(r, topology.symmetric)]
    labels = max((_edges(r, topology.symmetric) for r in labeled), default=0)
    ring = topology.n * SPACING / pi + 0.7
    size = max(2.5, min(ring, LARGEST), 1.5 + labels * CROWDING)
    size = max([size, *(CAPTION * len(said) for said in captions)])
    shrunk = min(1.0, (size - 0.7) / (ring - 0.7))
    columns = min(steps, max(1, int(WIDEST / size), ceil(sqrt(steps))))
    figure, axes = panels(ceil(steps / columns), columns, width=size, height=size + 0.25)
    order = _order(rounds)
    for step, axis in enumerate(axes):
        axis.set_axis_off()
        if step < steps:
            said = captions[step]
            _draw_round(
                axis, rounds[step], topology.symmetric, order, labeled=not said, shrunk=shrunk
            )
            title = f"round {step}: {said}" if said else None
            title = title or _title(step, rounds[step], topology.symmetric)
            axis.set_title(title, fontsize=9)
    seen = sorted({int(origin) for r in rounds for origin in r.origins})
    handles = [
        Line2D([], [], color=ORIGIN_COLORS[Origin(o)], linewidth=2.5, label=Origin(o).label)
        for o in seen
        if Origin(o).label
    ]
    if handles:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=min(len(handles), 5), frameon=False
        )
    two = f", {TWO_VECTORS}" if isinstance(topology, TwoStateSequence) else ""
    figure.suptitle(f"{topology.spec}, n = {topology.n}{two}", fontsize=10)
    return figure


def _draw_round(
    axis: Axes, r: Round, symmetric: bool, order: list[int], *, labeled: bool, shrunk: float
) -> None:
    angles = [2 * pi * place / r.n for place in order]
    places = [(sin(angle), cos(angle)) for angle in angles]
    axis.set_aspect("equal")
    margin = 1 + 0.9 / max(3.0, shrunk * r.n * SPACING / pi)
    axis.set_xlim(-margin, margin)
    axis.set_ylim(-margin, margin)
    radius = 6.5 * shrunk * (1.0 if shrunk >= NUMBERED else 0.6)  # points: gaps for short edges
    curves: list[_Curve] = []
    texts: list[str] = []
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
        bend = _bend(order[i], order[j], r.n)
        arrow = {
            "arrowstyle": "-" if symmetric else "-|>",
            "color": ORIGIN_COLORS[Origin(origin)],
            "linewidth": max(1.2, 2 * shrunk),
            "shrinkA": radius,
            "shrinkB": radius,
            "connectionstyle": f"arc3,rad={bend}",
        }
        axis.annotate("", places[i], places[j], arrowprops=arrow)
        curves.append(_Curve(places[j], places[i], bend))
        texts.append(f"{numerator}/{denominator}")
    if labeled and _is_labeled(r, symmetric):
        for spot, text in zip(_spots(curves, places), texts, strict=True):
            axis.annotate(
                text,
                spot,
                fontsize=7,
                ha="center",
                va="center_baseline",
                bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
            )
    axis.plot(*zip(*places, strict=True), "o", markersize=2 * radius, color="white", mec="#33312e")
    _number(axis, places, shrunk)


def _number(axis: Axes, places: list[Point], shrunk: float) -> None:
    """Number the nodes; small ones outside of the circle, and only so many that there is room."""
    inside = shrunk >= NUMBERED
    every = 1 if inside else 2 ** ceil(log2(len(places) / MOST_NUMBERS))
    for i, (x, y) in list(enumerate(places))[::every]:
        out = 1.0 if inside else 1.09
        size = 7.5 * shrunk if inside else 7.0
        axis.annotate(str(i), (out * x, out * y), ha="center", va="center_baseline", fontsize=size)


def _order(rounds: list[Round]) -> list[int]:
    """The place of every node on the circle: in turn, but where mirrors would not look like it.

    The mirrors of 2q nodes join i with q + (i + s) mod q. With the first half clockwise on the even
    places and the second half the other way round on the odd ones, that is a mirror of the circle.
    """
    n = rounds[0].n
    mirrors = all((r.origins == Origin.MIRROR).all() for r in rounds)
    if n % 2 or not mirrors:
        return list(range(n))
    return [2 * i for i in range(n // 2)] + [(1 - 2 * i) % n for i in range(n // 2)]


def _bend(receiver: int, sender: int, n: int) -> float:
    """Edges bend towards the centre, the more the fewer nodes they pass over; diameters do not."""
    clockwise = (receiver - sender) % n
    passed = min(clockwise, n - clockwise)
    bend = 0.3 * (1 - 2 * passed / n) if passed > 1 else 0.0
    return bend if clockwise == passed else -bend


class _Curve(NamedTuple):
    """An edge as it is drawn."""

    start: Point
    end: Point
    bend: float

    def at(self, along: float) -> Point:
        """The point at this share of the way."""
        across, up = self.end[0] - self.start[0], self.end[1] - self.start[1]
        bulge = 2 * along * (1 - along) * self.bend
        return (
            self.start[0] + along * across + bulge * up,
            self.start[1] + along * up - bulge * across,
        )


def _spots(curves: list[_Curve], nodes: list[Point]) -> list[Point]:
    """A spot on every edge for its weight, as far as can be from nodes, edges and other weights."""
    taken: list[Point] = []
    passed = [[curve.at(step / 10) for step in range(1, 10)] for curve in curves]
    for number, curve in enumerate(curves):
        others = [spot for edge in passed[:number] + passed[number + 1 :] for spot in edge]

        def room(along: float, curve: _Curve = curve, others: list[Point] = others) -> float:
            spot = curve.at(along)
            near = [1.2 * dist(spot, other) for other in others]  # an edge may come nearer
            return min([*near, *(dist(spot, other) for other in nodes + taken)], default=1.0)

        taken.append(curve.at(max(ALONG, key=lambda along: min(room(along), CLEAR))))
    return taken


def _is_labeled(r: Round, symmetric: bool) -> bool:
    return _edges(r, symmetric) <= (LABELED if len(_weights(r)) > 1 else CLUTTERED)


def _edges(r: Round, symmetric: bool) -> int:
    return len(r.receivers) // (2 if symmetric else 1)


def _weights(r: Round) -> list[tuple[int, int]]:
    return sorted({*zip(r.numerators.tolist(), r.denominators.tolist(), strict=True)})


def _title(step: int, r: Round, symmetric: bool) -> str:
    weights = _weights(r)
    if _is_labeled(r, symmetric):
        return f"round {step}"
    shown = ", ".join(f"{a}/{b}" for a, b in weights[:4]) + (", …" if len(weights) > 4 else "")
    return f"round {step}: {'all weights' if len(weights) == 1 else 'weights'} {shown}"
