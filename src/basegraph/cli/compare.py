"""`basegraph compare`: finished or running runs side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from basegraph.cli.arguments import Force, check_picture
from basegraph.cli.output import as_json, table
from basegraph.cli.run_rows import mean_rows, run_row, setting_of, varied
from basegraph.cli.runs import evaluated, said_of_state
from basegraph.cli.scores import UNITS, Unit, unit_of
from basegraph.errors import InvalidArgument
from basegraph.experiments.store import write_csv
from basegraph.storage.files import writable
from basegraph.training.status import FINISHED


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUNS...", help="runs, or folders with runs below them")
    ],
    means: Annotated[
        bool, typer.Option("--means", help="a row for runs that differ only in seed: mean ± std")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw learning curves to this file")
    ] = None,
    averaged: Annotated[
        bool, typer.Option("--averaged", help="also draw the curves of the averaged model")
    ] = False,
    csv_path: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="write the table to this .csv")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    force: Force = False,
) -> None:
    """Compare runs: a table of final scores, learning curves against epochs and bytes.

    A folder stands for all evaluated runs below it. Means are over finished runs.

    Example: basegraph compare runs/* --means --csv runs.csv --plot curves.png --averaged
    """
    if averaged and plot is None:
        raise InvalidArgument("--averaged", True, "requires --plot FILE")
    check_picture("--plot", plot, force=force)
    if csv_path is not None:
        writable("--csv", csv_path, suffixes=(".csv",), force=force)
    evaluated_runs = find_runs(runs)
    if plot is not None:
        from basegraph.plots.learning import draw_learning

        models = ("nodes", "averaged") if averaged else ("nodes",)
        draw_learning(evaluated_runs, [plot], models=models)
    rows = _means(evaluated_runs) if means else [run_row(run) for run in evaluated_runs]
    if csv_path is not None:
        columns = list({name: None for row in rows for name in row})
        write_csv(csv_path, [{name: row.get(name) for name in columns} for row in rows])
    if json and means:
        as_json(rows)
    elif json:
        shown = ("run", "state", "config")
        as_json([{**{n: r[n] for n in shown}, **r["rows"][-1]} for r in evaluated_runs])
    else:
        _print(rows, means, varied([run["config"] for run in evaluated_runs]))
        for path in (plot, csv_path):
            if path is not None:
                print(f"written to {path}")


def find_runs(paths: list[Path]) -> list[dict[str, Any]]:
    """The runs at these paths and in the folders below them, each once.

    A run that is named must have been evaluated; others without an evaluation are left out, and
    named on standard error.
    """
    return [
        {
            "run": status.name,
            "state": status.state,
            "stands": "" if status.state == FINISHED else said_of_state(status),
            "config": status.config,
            "rows": status.rows,
        }
        for status in evaluated(paths)
    ]


def _means(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the runs that have finished; the others are named on standard error."""
    others = [f"{run['run']} {run['stands']}" for run in runs if run["state"] != FINISHED]
    if len(others) == len(runs):
        raise InvalidArgument("--means", True, f"is over finished runs: {'; '.join(others)}")
    if others:
        print(f"not in the means: {'; '.join(others)}", file=sys.stderr)
    return mean_rows([run for run in runs if run["state"] == FINISHED])


def _print(rows: list[dict[str, Any]], means: bool, settings: list[str]) -> None:
    """A table for each kind of score: accuracies and bits per byte are not to be compared."""
    kinds = [(unit, [row for row in rows if unit_of([row]) == unit]) for unit in UNITS]
    for number, (unit, alike) in enumerate((u, some) for u, some in kinds if some):
        if number:
            print()
        _print_alike(alike, unit, means, settings)
    seeds = {(setting_of(row), row.get("seed")) for row in rows}
    if not means and len({setting for setting, _ in seeds}) < len(seeds):
        print("some runs differ only in their seed: --means shows mean ± standard deviation")


def _print_alike(rows: list[dict[str, Any]], unit: Unit, means: bool, settings: list[str]) -> None:
    scores = [f"{name} {unit.column}" for name in ("test", "averaged", "worst", "validation")]
    tokens = any("tokens" in row for row in rows)
    states = not means and any(row["state"] != FINISHED for row in rows)
    named = ["seeds"] if means else ["run"]
    headings = ["α" if name == "alpha" else name for name in settings]
    spent = ["distance", *(["M tokens"] if tokens else []), "MB per node", "seconds"]
    spent += ["state"] if states else []

    def line(row: dict[str, Any]) -> list[object]:
        seen = f"{row['tokens'] / 1e6:.4g}" if row.get("tokens") is not None else "–"
        return [
            row["algorithm"],
            row["topology"],
            *["–" if row.get(name) is None else row[name] for name in settings],
            row["epoch"],
            unit.cell(row, "test"),
            unit.cell(row, "test", "averaged"),
            unit.cell(row, "test", "worst"),
            unit.cell(row, "validation"),
            f"{row['consensus_distance']:.2g}",
            *([seen] if tokens else []),
            f"{row['bytes_per_node'] / 1e6:.1f}",
            f"{row['seconds']:.0f}",
            *([row["state"]] if states else []),
        ]

    table(
        [*named, "algorithm", "topology", *headings, "epoch", *scores, *spent],
        [[row[named[0]], *line(row)] for row in rows],
    )
