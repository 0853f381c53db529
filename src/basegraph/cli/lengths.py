"""`basegraph lengths`: how many rounds exact consensus takes."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Annotated, Any

import typer

from basegraph.cli.arguments import Force, check_picture, items, whole_numbers
from basegraph.cli.output import as_json, table
from basegraph.errors import InvalidArgument, unknown
from basegraph.experiments.lengths import measure
from basegraph.experiments.store import write_csv
from basegraph.storage.files import writable
from basegraph.topologies.catalog import TOPOLOGIES, TWO_STATE_NAMES
from basegraph.topologies.two_states.sequence import TWO_VECTORS


def lengths(
    nodes: Annotated[
        str, typer.Option("--nodes", "-n", metavar="N", help="such as 2:200")
    ] = "2:200",
    degree: Annotated[str, typer.Option("--degree", "-k", metavar="K", help="such as 1:5")] = "1:5",
    topologies: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="catalogue names with an option k, or ceca (two vectors per node), by commas",
        ),
    ] = "simple-base,base",
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw to this .png, .svg or .pdf")
    ] = None,
    csv_path: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="write every length to this .csv")
    ] = None,
    optimal: Annotated[
        bool, typer.Option("--optimal", help="print the n whose length is the lower bound")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="print every length as JSON")] = False,
    force: Force = False,
) -> None:
    """Compare the lengths of sequences, with Theorem 1's bound and the lower bound.

    Example: basegraph lengths --nodes 2:200 --degree 1:5 --plot lengths.png
    """
    names = items(topologies) if topologies else []
    with_k = [name for name, builder in TOPOLOGIES.items() if "k" in builder.options]
    with_k += TWO_STATE_NAMES
    for name in names:
        if name not in with_k:
            raise unknown("--topologies", name, with_k)
    if not names:
        raise InvalidArgument("--topologies", topologies, f"must name some of {', '.join(with_k)}")
    sizes, degrees = whole_numbers("--nodes", nodes), whole_numbers("--degree", degree)
    check_picture("--plot", plot, force=force)
    if csv_path is not None:
        writable("--csv", csv_path, suffixes=(".csv",), force=force)
    rows = [measure(names, n, k) for k in degrees for n in sizes]
    if plot is not None:
        from basegraph.plots.lengths import draw_lengths

        draw_lengths(rows, names, plot)
    if csv_path is not None:
        write_csv(csv_path, rows)
    if json:
        as_json({"lengths": rows, "optimal": _optimal(rows, degrees, names)} if optimal else rows)
        return
    columns = [*names, "theorem_1", "lower_bound"]
    table(
        ["k", "n", *[f"mean {_heading(column)}" for column in columns]],
        [(k, nodes, *_means(rows, k, columns)) for k in degrees],
        title="rounds until exact consensus, mean over n",
    )
    for name in names:
        if name in TWO_STATE_NAMES:
            print(f"{name}: {TWO_VECTORS}, k = 1; the lower bound is for one vector per node")
    if optimal:
        _print_optimal(rows, degrees, names)
    for path in (plot, csv_path):
        if path is not None:
            print(f"written to {path}")


def _print_optimal(rows: list[dict[str, int | None]], degrees: list[int], names: list[str]) -> None:
    """The n for which no sequence can be shorter."""
    for name in names:
        if name in TWO_STATE_NAMES:
            print(f"\n{name}: ceil(log2 n) rounds, the least with one message in, for every n")
            continue
        for found in _optimal(rows, degrees, [name]):
            k, met = found["k"], found["n"]
            count = sum(row["k"] == k for row in rows)
            print(f"\n{name}, k = {k}: at the lower bound for {len(met)} of {count} n")
            print(fill(", ".join(map(str, met)), width=100))


def _optimal(
    rows: list[dict[str, int | None]], degrees: list[int], names: list[str]
) -> list[dict[str, Any]]:
    """By topology and k, the n whose length is the lower bound for one vector per node."""
    return [
        {
            "topology": name,
            "k": k,
            "n": [r["n"] for r in rows if r["k"] == k and r[name] == r["lower_bound"]],
        }
        for name in names
        if name not in TWO_STATE_NAMES
        for k in degrees
    ]


def _heading(column: str) -> str:
    return f"{column} ({TWO_VECTORS})" if column in TWO_STATE_NAMES else column


def _means(rows: list[dict[str, int | None]], k: int, columns: list[str]) -> list[str]:
    means = []
    for column in columns:
        values = [v for row in rows if row["k"] == k and (v := row[column]) is not None]
        means.append(f"{fmean(values):.2f}" if values else "–")
    return means
