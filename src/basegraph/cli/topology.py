"""`basegraph topology`: look at one topology, round by round."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from basegraph.cli.arguments import Force, build, check_picture, complete_topology, whole_number
from basegraph.cli.output import as_json, table
from basegraph.cli.two_states import show_two_states
from basegraph.errors import InvalidArgument
from basegraph.topologies.analysis.diagnostics import (
    MEANINGS,
    NO_VERDICT,
    Diagnostics,
    diagnose,
    is_quick,
)
from basegraph.topologies.catalog import TOPOLOGIES
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Sequence, Topology
from basegraph.topologies.two_states.sequence import TwoStateSequence

SHOWN = 12
"""Edges listed in one cell before the rest is counted only."""


def topology(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="a catalogue name, with options: base:k=2",
            autocompletion=complete_topology,
        ),
    ] = "",
    nodes: Annotated[
        str | None, typer.Option("--nodes", "-n", metavar="N", help="number of nodes")
    ] = None,
    degree: Annotated[
        str | None,
        typer.Option("--degree", "-k", metavar="K", help="neighbors per round (the k of base)"),
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="S", help="of a random topology")] = None,
    node: Annotated[
        str | None,
        typer.Option(metavar="I", help="show only the neighbors this node receives from"),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(metavar="T", help="rounds to show; default: one period, or 4 of a random one"),
    ] = None,
    properties: Annotated[
        bool | None,
        typer.Option(
            "--properties/--no-properties",
            help="disagreement in training and pair weights; default: if it is quick",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    draw: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw the rounds to this .svg, .png or .pdf")
    ] = None,
    force: Force = False,
) -> None:
    """Show a topology: rounds, edges, exact weights and which line of the paper added them.

    Example: basegraph topology base --nodes 6 --degree 1 --draw base-6.svg

    For periodic topologies, also prints diagnostics beyond the number of rounds. Without a name,
    lists the catalogue.
    """
    if not spec:
        catalogue(json)
        return
    check_picture("--draw", draw, force=force)
    built = build(
        spec,
        whole_number("--nodes", nodes),
        degree=None if degree is None else whole_number("--degree", degree),
        seed=None if seed is None else whole_number("--seed", seed, low=0),
    )
    count = built.period or 4 if steps is None else whole_number("--steps", steps)
    one = None if node is None else whole_number("--node", node, low=0)
    if isinstance(built, TwoStateSequence):
        show_two_states(built, count, one, properties=bool(properties), draw=draw, json=json)
        return
    if properties and one is not None:
        raise InvalidArgument(
            "--node", one, "cannot be combined with --properties, which describe the whole topology"
        )
    if properties and not isinstance(built, Sequence):
        raise InvalidArgument(
            "NAME", spec, "is random and has no period, which --properties require"
        )
    heard = [] if one is None else hears(built, one, count)
    if draw is not None:
        from basegraph.plots.rounds import draw_rounds

        draw_rounds(built, draw, steps=count)
    diagnostics = None
    if one is None and isinstance(built, Sequence) and properties is not False:
        diagnostics = diagnose(built) if properties or is_quick(built) else None
    if json:
        as_json({**describe(built, count), **as_dict(diagnostics)} if one is None else heard)
    elif one is not None:
        rows = [(step, j, w) for step, weights in heard for j, w in weights.items()]
        table(["step", "receives from", "weight"], rows, title=f"{built!r}: node {one}")
    else:
        _print_rounds(built, count)
        if diagnostics is not None:
            _print_properties(diagnostics)
        elif isinstance(built, Sequence) and properties is None:
            print("\nproperties take more than a second here: --properties computes them")
    if draw is not None and not json:
        print(f"drawn to {draw}")


def catalogue(json: bool) -> None:
    """List every topology of the catalogue."""
    if json:
        as_json({name: builder.description for name, builder in TOPOLOGIES.items()})
        return
    rows = [
        (name, ", ".join(f"{o}={d}" for o, d in builder.options.items()), builder.description)
        for name, builder in TOPOLOGIES.items()
    ]
    table(["name", "options", "what it is"], rows)


def hears(built: Topology, node: int, count: int) -> list[tuple[int, dict[int, str]]]:
    """Whom a node hears at each step, without building a round."""
    return [
        (step, {j: str(w) for j, w in built.neighbors(node, step).items()}) for step in range(count)
    ]


def describe(built: Topology, count: int) -> dict[str, Any]:
    """Everything about a topology, for a program."""
    ends = ["node", "node"] if built.symmetric else ["receiver", "sender"]
    return {
        "spec": built.spec,
        "n": built.n,
        "period": built.period,
        "max_degree": built.max_degree,
        "vectors_per_node": 1,
        "symmetric": built.symmetric,
        "note": built.note,
        "edge_fields": [*ends, "weight", "added_by"],
        "rounds": [
            [[i, j, str(w), o.label] for i, j, w, o in edges(built.round(step), built.symmetric)]
            for step in range(count)
        ],
    }


def as_dict(diagnostics: Diagnostics | None) -> dict[str, Any]:
    """The diagnostics, for a program: null where they have not been computed."""
    if diagnostics is None:
        return {"properties": None}
    return {
        "properties": {
            "training_disagreement": {
                f"{rho:g}": d for rho, d in diagnostics.training_shown.items()
            },
            "noise_disagreement": diagnostics.noise_shown,
            "mean_pair_weight": diagnostics.weights.mean,
            "largest_pair_weight": str(diagnostics.weights.largest),
            "how": diagnostics.how,
            "meanings": MEANINGS,
            "caution": NO_VERDICT,
        }
    }


def _print_rounds(built: Topology, count: int) -> None:
    rows = [row for step in range(count) for row in _rows(step, built)]
    table(["round", "added by", "weight", "edges", "which"], rows, title=repr(built))
    if built.note:
        print(f"\nnote: {built.note}")


def _print_properties(diagnostics: Diagnostics) -> None:
    cells = [f"{v:.4g}" if isinstance(v, float) else v for v in diagnostics.row().values()]
    print()
    table(list(diagnostics.row()), [cells], title=f"properties ({diagnostics.how})")
    for name, meaning in MEANINGS.items():
        print(f"{name}: {meaning}.")
    print(NO_VERDICT)


def edges(r: Round, symmetric: bool) -> list[tuple[int, int, Fraction, Origin]]:
    """The edges of a symmetric round once each, the arcs (receiver, sender) of a directed one."""
    arcs = zip(
        r.receivers.tolist(),
        r.senders.tolist(),
        map(Fraction, r.numerators.tolist(), r.denominators.tolist()),
        map(Origin, r.origins.tolist()),
        strict=True,
    )
    return [arc for arc in arcs if not symmetric or arc[0] < arc[1]]


def _rows(step: int, built: Topology) -> list[tuple[object, ...]]:
    """One row for every (origin, weight) of a round, with the first few edges."""
    r = built.round(step)
    once = r.receivers < r.senders if built.symmetric else np.ones(len(r.receivers), dtype=bool)
    arrow = "–" if built.symmetric else "←"
    kinds = np.stack([r.origins[once], r.numerators[once], r.denominators[once]], axis=1)
    ends = np.stack([r.receivers[once], r.senders[once]], axis=1)
    unique, first = np.unique(kinds, axis=0, return_index=True)
    rows: list[tuple[object, ...]] = []
    for origin, numerator, denominator in unique[np.argsort(first)].tolist():
        edges_of_kind = ends[(kinds == (origin, numerator, denominator)).all(axis=1)]
        which = " ".join(f"{i}{arrow}{j}" for i, j in edges_of_kind[:SHOWN].tolist())
        rest = len(edges_of_kind) - SHOWN
        rows.append(
            (
                step,
                Origin(origin).label or "–",
                Fraction(numerator, denominator),
                len(edges_of_kind),
                which + (f" … {rest} more" if rest > 0 else ""),
            )
        )
    return rows or [(step, "–", "–", 0, "(no exchange)")]
