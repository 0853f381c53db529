"""`basegraph compare`: finished or running runs side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from basegraph.cli.arguments import Force, check_picture
from basegraph.cli.output import as_json, table
from basegraph.cli.scores import Unit, unit_of
from basegraph.errors import InvalidArgument
from basegraph.training.config import read_saved
from basegraph.training.status import name_below, runs_below


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
    evaluated: dict[Path, dict[str, Any]] = {}
    without = []
    for path in paths:
        below = list(runs_below(path))
        if not below:
            raise InvalidArgument("RUNS", str(path), "is not a folder with runs")
        for one in below:
            run = read_run(one)
            if run["rows"]:
                evaluated.setdefault(one.resolve(), {**run, "run": name_below(one, path)})
            elif one == path:
                raise InvalidArgument("RUNS", str(path), "has no evaluation yet")
            else:
                without.append(str(one))
    if not evaluated:
        raise InvalidArgument("RUNS", without, "have no evaluation yet")
    if without:
        print(f"left out, no evaluation yet: {', '.join(without)}", file=sys.stderr)
    return list(evaluated.values())


def read_run(path: Path) -> dict[str, Any]:
    """A run's folder as {run, config, rows}."""
    from basegraph.training.folder import RunFolder

    rows = RunFolder(path, resume=True).rows()
    return {"run": path.name, "config": read_saved(path / "config.toml"), "rows": rows}


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
