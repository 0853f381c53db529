"""What `basegraph topology` prints of a sequence that keeps two vectors per node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from basegraph.cli.output import as_json, table
from basegraph.topologies.two_states.round import Heard
from basegraph.topologies.two_states.sequence import (
    TWO_VECTORS,
    TwoStateSequence,
    refuse_two_states,
)

SHOWN = 12
"""Messages listed in one cell before the rest is counted only."""
LEGEND = (
    f"{TWO_VECTORS}, x and y; a node that receives v sets x to x + a(v - x) and y to y + b(v - y), "
    f"where a and b are the weights in x and in y. After one period x is the average of all x."
)


def show_two_states(
    built: TwoStateSequence,
    count: int,
    node: int | None,
    *,
    properties: bool,
    draw: Path | None,
    json: bool,
) -> None:
    """Print the first `count` rounds, of all nodes or of one.

    Args:
        built: The sequence.
        count: How many rounds.
        node: Show only the neighbors this node receives from.
        properties: Whether diagnostics were asked for, which there are none of.
        draw: Where to draw the rounds.
        json: Print JSON.

    Raises:
        InvalidArgument: If diagnostics were asked for.

    """
    if properties:
        refuse_two_states("NAME", built, "--properties are of n × n rounds, as those of short")
    heard = [] if node is None else [(t, built.neighbors(node, t)) for t in range(count)]
    if draw is not None:
        from basegraph.plots.rounds import draw_rounds

        draw_rounds(built, draw, steps=count)
    if node is None:
        _print_rounds(built, count, json=json)
    else:
        _print_node(f"{built!r}: node {node}", heard, json=json)
    if draw is not None and not json:
        print(f"drawn to {draw}")


def _print_node(title: str, heard: list[tuple[int, dict[int, Heard]]], *, json: bool) -> None:
    if json:
        as_json([[step, {j: _as_dict(h) for j, h in by.items()}] for step, by in heard])
        return
    rows = [(step, j, *h) for step, by in heard for j, h in by.items()]
    table(["step", "receives from", "its", "weight in x", "weight in y"], rows, title=title)


def _print_rounds(built: TwoStateSequence, count: int, *, json: bool) -> None:
    if json:
        as_json(describe_two_states(built, count))
        return
    rows = [row for step in range(count) for row in _rows(step, built)]
    columns = ["round", "sent", "weight in x", "weight in y", "messages", "which"]
    table(columns, rows, title=repr(built))
    print(f"\nnote: {LEGEND}")


def describe_two_states(built: TwoStateSequence, count: int) -> dict[str, Any]:
    """Everything about a two-state sequence, for a program."""
    return {
        "spec": built.spec,
        "n": built.n,
        "period": built.period,
        "max_degree": built.max_degree,
        "vectors_per_node": built.states,
        "symmetric": built.symmetric,
        "note": LEGEND,
        "edge_fields": ["receiver", "sender", "vector", "weight_in_x", "weight_in_y"],
        "rounds": [
            [[i, j, h.vector, str(h.x), str(h.y)] for i, j, h in _messages(built, step)]
            for step in range(count)
        ],
        "properties": None,
    }


def _messages(built: TwoStateSequence, step: int) -> list[tuple[int, int, Heard]]:
    return [(i, j, h) for i in range(built.n) for j, h in built.neighbors(i, step).items()]


def _as_dict(heard: Heard) -> dict[str, str]:
    return {"vector": heard.vector, "weight_in_x": str(heard.x), "weight_in_y": str(heard.y)}


def _rows(step: int, built: TwoStateSequence) -> list[tuple[object, ...]]:
    """One row for every kind of message of a round, with the first few."""
    kinds: dict[Heard, list[str]] = {}
    for i, j, heard in _messages(built, step):
        kinds.setdefault(heard, []).append(f"{i}←{j}")
    rows: list[tuple[object, ...]] = []
    for heard, which in kinds.items():
        rest = len(which) - SHOWN
        more = f" … {rest} more" if rest > 0 else ""
        rows.append((step, *heard, len(which), " ".join(which[:SHOWN]) + more))
    return rows or [(step, "–", "–", "–", 0, "(everyone idles)")]
