"""`basegraph consensus`: how fast disagreement falls."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from basegraph.cli.arguments import Force, check_picture, whole_number, whole_numbers
from basegraph.cli.output import as_json, table
from basegraph.experiments.consensus import measure
from basegraph.experiments.store import write_csv
from basegraph.extras import optional_imports
from basegraph.storage.files import writable
from basegraph.topologies.catalog import parse_specs, topology
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.sequence import TWO_VECTORS, TwoStateSequence

DEFAULT = "base:k=1,base:k=2,base:k=3,base:k=4,exponential,one-peer-exponential,ring,torus"
COLUMNS = 8
"""Rounds shown in the printed table."""


def consensus(
    nodes: Annotated[
        str, typer.Option("--nodes", "-n", metavar="N", help="number of nodes, or several: 21:25")
    ] = "25",
    topologies: Annotated[
        str, typer.Option(metavar="SPECS", help="catalogue names with options, by commas")
    ] = DEFAULT,
    steps: Annotated[str, typer.Option(metavar="T", help="rounds to mix")] = "40",
    seed: Annotated[
        str, typer.Option(metavar="S", help="of the Gaussian start; several, 0:9, give a band")
    ] = "0",
    wire: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="send float32 vectors as bf16, int8, fp8, topk:0.01, randk:0.1, ...; repeatable",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw to this .png, .svg or .pdf")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write every error to this .csv")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print every error as JSON")] = False,
    force: Force = False,
) -> None:
    """Mix Gaussian values and watch the consensus error (1/n) Σ (x_i - mean)² fall.

    Example: basegraph consensus --nodes 25 --topologies base:k=1,ring --plot consensus.png

    Example: basegraph consensus --topologies base:k=1 --wire float32 --wire int8 --wire topk:0.1
    """
    specs = parse_specs("--topologies", topologies)
    count = whole_number("--steps", steps, low=0, high=10**6)
    sizes, seeds = whole_numbers("--nodes", nodes), whole_numbers("--seed", seed, low=0)
    check_picture("--plot", plot, force=force)
    if csv is not None:
        writable("--csv", csv, suffixes=(".csv",), force=force)
    built = list({(t.spec, n): t for n in sizes for t in (topology(s, n) for s in specs)}.values())
    with optional_imports():
        rows = measure(built, count, seeds, wire or ())
    if csv is not None:
        write_csv(csv, rows)
    if plot is not None:
        from basegraph.plots.consensus import draw_consensus

        draw_consensus([{**row, "topology": _curve(row)} for row in rows], [plot])
    if json:
        as_json(rows)
        return
    shown = sorted({round(i * count / (COLUMNS - 1)) for i in range(COLUMNS)})
    errors: dict[tuple[int, str, int], list[float]] = {}
    for row in rows:
        errors.setdefault((row["n"], _curve(row), row["step"]), []).append(row["error"])
    curves = dict.fromkeys((row["n"], _curve(row), row["degree"]) for row in rows)
    names = {t.spec: _name(t) for t in built}
    table(
        ["n", "topology", "degree", *[f"round {step}" for step in shown]],
        [
            (
                n,
                names.get(curve, curve),
                degree,
                *[f"{median(errors[n, curve, s]):.0e}" for s in shown],
            )
            for n, curve, degree in curves
        ],
        title="consensus error" + (f", median of {len(seeds)} starts" if len(seeds) > 1 else ""),
    )
    for path in (plot, csv):
        if path is not None:
            print(f"written to {path}")


def _curve(row: dict[str, Any]) -> str:
    """What a curve is called: the topology, and the wire if there is one."""
    return f"{row['topology']} over {row['wire']}" if "wire" in row else str(row["topology"])


def _name(t: Topology | TwoStateSequence) -> str:
    return f"{t.spec} ({TWO_VECTORS})" if isinstance(t, TwoStateSequence) else t.spec
