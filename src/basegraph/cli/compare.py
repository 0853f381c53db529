"""`basegraph compare`: finished or running runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from basegraph.cli.arguments import Force, check_picture
from basegraph.cli.output import as_json, table
from basegraph.cli.runs import evaluated
from basegraph.cli.scores import Unit, unit_of


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUNS...", help="runs, or folders with runs below them")
    ],
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw learning curves to this file")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    force: Force = False,
) -> None:
    """Compare runs: a table of where they ended, learning curves against epochs and bytes.

    Sweeps and other folders count for all runs below them that have been evaluated.

    Example: basegraph compare runs/* --plot curves.png
    """
    check_picture("--plot", plot, force=force)
    evaluated_runs = find_runs(runs)
    if plot is not None:
        from basegraph.plots.learning import draw_learning

        draw_learning(evaluated_runs, [plot])
    if json:
        as_json([{"run": r["run"], "config": r["config"], **r["rows"][-1]} for r in evaluated_runs])
        return
    unit = unit_of(run["rows"][-1] for run in evaluated_runs)
    scores = [f"{name} {unit.column}" for name in ("test", "averaged", "worst", "validation")]
    tokens = any("tokens" in run["rows"][-1] for run in evaluated_runs)
    spent = ["distance", *(["M tokens"] if tokens else []), "MB per node", "seconds"]
    table(
        ["run", "algorithm", "topology", "epoch", *scores, *spent],
        [_line(run, unit, tokens) for run in evaluated_runs],
    )
    if plot is not None:
        print(f"written to {plot}")


def find_runs(paths: list[Path]) -> list[dict[str, Any]]:
    """The runs at these paths and in the folders below them, each once.

    A run that is named must have been evaluated; others without an evaluation are left out, and
    named on standard error.
    """
    return [
        {"run": status.name, "config": status.config, "rows": status.rows}
        for status in evaluated(paths)
    ]


def _line(run: dict[str, Any], unit: Unit, tokens: bool) -> list[object]:
    last, config = run["rows"][-1], run["config"]
    seen = f"{last['tokens'] / 1e6:.4g}" if "tokens" in last else "–"
    return [
        run["run"],
        config["algorithm"],
        config["topology"],
        last["epoch"],
        unit.cell(last, "test"),
        unit.cell(last, "test", "averaged"),
        unit.cell(last, "test", "worst"),
        unit.cell(last, "validation"),
        f"{last['consensus_distance']:.2g}",
        *([seen] if tokens else []),
        f"{last['bytes_per_node'] / 1e6:.1f}",
        f"{last['seconds']:.0f}",
    ]
