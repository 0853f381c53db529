"""How notebooks show rounds: a small drawing of each, as inline SVG, without matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from basegraph.topologies.core.round import Round
    from basegraph.topologies.core.sequence import Topology
    from basegraph.topologies.two_states.sequence import TwoStateSequence

NOTEBOOK_NODES = 64
"""Rounds of more nodes are named, not drawn."""
NOTEBOOK_ROUNDS = 12
"""So many rounds of a topology are drawn."""
NOTEBOOK_ARCS = 1024
"""Rounds of more arcs are named, not drawn."""
SIZE, RADIUS, DOT = 130, 50.0, 3.0
"""Pixels: a drawing's side, its circle of nodes, a node."""


def topology_html(
    topology: Topology | TwoStateSequence, drawn: Callable[[int], Round] | None = None
) -> str:
    """A topology as HTML: what it is, and a drawing of its first rounds.

    `drawn` gives the graph of a step where that is not the round itself.

    >>> from basegraph.topologies.catalog import topology
    >>> topology_html(topology("base", n=6)).count("<svg")
    4
    """
    lines = [repr(topology), topology.note]
    rounds = topology.period or 1
    steps = range(min(rounds, NOTEBOOK_ROUNDS))
    if topology.n > NOTEBOOK_NODES:
        lines.append(f"not drawn: more than {NOTEBOOK_NODES} nodes")
        steps = range(0)
    elif rounds > NOTEBOOK_ROUNDS:
        lines.append(f"the first {NOTEBOOK_ROUNDS} of {rounds} rounds")
    graph: Callable[[int], Any] = drawn or topology.round
    drawings = [_panel(graph(step), f"round {step}") for step in steps]
    return _page(lines, drawings)


def round_html(r: Round) -> str:
    """A round as HTML: what it is, and a drawing of it."""
    if r.n > NOTEBOOK_NODES:
        return _page([repr(r), f"not drawn: more than {NOTEBOOK_NODES} nodes"], [])
    return _page([repr(r)], [_panel(r, "")])


def _page(lines: Iterable[str], drawings: Iterable[str]) -> str:
    head = "".join(f"<div>{escape(line)}</div>" for line in lines if line)
    row = "".join(drawings)
    return f'<div>{head}<div style="display:flex;flex-wrap:wrap">{row}</div></div>'


def _panel(r: Round, title: str) -> str:
    """One drawing with its title below."""
    drawn = len(r.receivers) <= NOTEBOOK_ARCS
    body = _svg(r) if drawn else f"<div>{escape(repr(r))}</div>"
    return (
        f'<figure style="margin:4px;text-align:center">{body}'
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


def _svg(r: Round) -> str:
    """Nodes on a circle, 0 at the top, clockwise; arcs with their weights as tooltips."""
    middle = SIZE / 2
    angles = [2 * pi * i / r.n for i in range(r.n)]
    places = [(middle + RADIUS * sin(a), middle - RADIUS * cos(a)) for a in angles]
    arcs = r.weights_by_arc()
    shapes = []
    for (i, j), weight in arcs.items():
        mutual = arcs.get((j, i)) == weight
        if mutual and i < j:  # drawn once
            continue
        (x1, y1), (x2, y2) = places[j], places[i]
        label = f"{j} {'↔' if mutual else '→'} {i}: {weight}"
        shapes.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="currentColor" stroke-width="{0.5 + 1.5 * float(weight):.2f}">'
            f"<title>{escape(label)}</title></line>"
        )
        if not mutual:  # a dot near the receiver is the head of the arrow
            x, y = x2 + 0.15 * (x1 - x2), y2 + 0.15 * (y1 - y2)
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.6" fill="currentColor"/>')
    for i, (x, y) in enumerate(places):
        shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{DOT}" fill="#0b6e99">'
            f"<title>{i}</title></circle>"
        )
    namespace = "http://www.w3.org/2000/svg"
    return f'<svg xmlns="{namespace}" width="{SIZE}" height="{SIZE}">{"".join(shapes)}</svg>'
