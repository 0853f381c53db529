"""`basegraph compare`: finished or running runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from basegraph.commands.arguments import Force
from basegraph.commands.output import as_json, table
from basegraph.errors import InvalidArgument
from basegraph.files import writable
from basegraph.training.config import read_saved


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS...", help="folders of runs")],
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw learning curves to this file")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    force: Force = False,
) -> None:
    """Compare runs: a table of where they ended, learning curves against epochs and bytes.

    Example: basegraph compare runs/* --plot curves.png
    """
    if plot is not None:
        writable("--plot", plot, suffixes=(".png", ".svg", ".pdf"), force=force)
    found = [read_run(path) for path in runs]
    if plot is not None:
        from basegraph.plots.learning import draw_learning

        draw_learning(found, [plot])
    if json:
        as_json([{"run": r["run"], "config": r["config"], **r["rows"][-1]} for r in found])
        return
    table(
        ["run", "algorithm", "topology", "epoch", "test %", "averaged %", "worst %", "validation %",
         "distance", "MB per node", "seconds"],
        [_line(r) for r in found],
    )  # fmt: skip
    if plot is not None:
        print(f"written to {plot}")


def read_run(path: Path) -> dict[str, Any]:
    """A run's folder as {run, config, rows}."""
    from basegraph.training.folder import RunFolder

    if not (path / "config.toml").is_file():
        raise InvalidArgument("RUNS", str(path), "is not the folder of a run")
    rows = RunFolder(path, resume=True).rows()
    if not rows:
        raise InvalidArgument("RUNS", str(path), "has no evaluation yet")
    return {"run": path.name, "config": read_saved(path / "config.toml"), "rows": rows}


def _line(run: dict[str, Any]) -> list[object]:
    last, config = run["rows"][-1], run["config"]
    shares = ("test_accuracy", "test_accuracy_averaged", "test_accuracy_worst",
              "validation_accuracy")  # fmt: skip
    return [
        run["run"],
        config["algorithm"],
        config["topology"],
        last["epoch"],
        *[f"{100 * last[name]:.1f}" if name in last else "–" for name in shares],
        f"{last['consensus_distance']:.2g}",
        f"{last['bytes_per_node'] / 1e6:.1f}",
        f"{last['seconds']:.0f}",
    ]
