"""`basegraph report`: runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from basegraph.cli.arguments import Force
from basegraph.cli.runs import evaluated
from basegraph.plots.report import write_report
from basegraph.storage.files import writable


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUNS...", help="runs, or folders with runs below them")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="the .html file to write")],
    force: Force = False,
) -> None:
    """Write one HTML file on runs: curves to compare, settings, provenance; no network needed.

    Example: basegraph report runs/demo runs/ring --out report.html
    """
    path = writable("--out", out, suffixes=(".html",), force=force)
    statuses = evaluated(runs)
    write_report(path, statuses)
    count = "1 run" if len(statuses) == 1 else f"{len(statuses)} runs"
    size = path.stat().st_size // 1024
    print(f"{count} written to {path} ({size} KiB); open it in a browser")
