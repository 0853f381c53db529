"""The report on runs: one self-contained HTML file with curves, settings and provenance.

The tables are in the page as they are (`tables.py`); the curves are drawn by its scripts from the
numbers of metrics.jsonl, which are in the page too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from basegraph import __version__
from basegraph.errors import InvalidArgument
from basegraph.plots.colors import Look, looks, topology_of
from basegraph.plots.pages import write_html
from basegraph.plots.report import tables
from basegraph.training.status import RunStatus

SCRIPTS = ("chart.js", "report.js")
UNITS = {
    "accuracy": "accuracy (%)",
    "bits_per_byte": "bits per byte",
    "loss": "loss",
}
"""What scores are in, in the order of preference."""
MOST_RUNS = 200
MOST_POINTS = 2000
"""Of a curve: of more evaluations, some are left out, but neither the first nor the last."""
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.2, 1.4), (9, 2.5), (6, 2, 1.2, 2))


def write_report(path: Path, runs: Sequence[RunStatus]) -> None:
    """Write a report on runs.

    Args:
        path: The file to write, which is replaced whole.
        runs: Runs that have been evaluated, all by accuracy, by bits per byte, or by losses.

    Raises:
        InvalidArgument: There are too many runs, or their scores cannot be compared.

    """
    if len(runs) > MOST_RUNS:
        raise InvalidArgument("runs", len(runs), f"must be at most {MOST_RUNS}")
    measure = _measure(runs)
    curves = [
        {
            "name": run.name,
            "title": f"{run.config['topology']}, {run.config['algorithm']}",
            "look": {"light": look.color, "dark": look.dark, "dashes": look.dashes},
            "columns": _columns(run),
            "nodes": _nodes(run),
        }
        for run, look in zip(runs, _looks(runs), strict=True)
    ]
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    data = ", ".join(dict.fromkeys(str(run.config["dataset"]) for run in runs))
    models = ", ".join(dict.fromkeys(str(run.config["model"]) for run in runs))
    write_html(
        path,
        __name__,
        scripts=SCRIPTS,
        values={"RUNS": curves, "REPORT": {"measure": measure, "unit": UNITS[measure]}},
        parts={
            "TITLE": escape(f"basegraph: {title}"),
            "ABOUT": escape(f"{models} on {data}. Written by basegraph {__version__}."),
            "SUMMARY": tables.summary(runs, measure),
            "CHARTS": _charts(runs, measure),
            "CHANGES": tables.changes(runs),
            "SETTINGS": tables.settings(runs),
            "PROVENANCE": tables.provenance(runs),
        },
    )


def _measure(runs: Sequence[RunStatus]) -> str:
    """The score that all runs have; refused where some have accuracies and others losses."""
    for measure in UNITS:
        having = [run for run in runs if any(f"test_{measure}" in row for row in run.rows)]
        if having and len(having) < len(runs):
            other = next(run.name for run in runs if run not in having)
            raise InvalidArgument("runs", other, f"has no test_{measure}, which the others have")
        if having:
            return measure
    return "loss"


def _looks(runs: Sequence[RunStatus]) -> list[Look]:
    """A look for each run: its topology's color; runs of one topology differ by their dashes.

    Where all runs have the same topology, colors tell them apart.
    """
    specs = [topology_of(run.config) for run in runs]
    if len(runs) > 1 and len(set(specs)) == 1:
        return list(looks(f"run {number}" for number in range(len(runs))).values())
    by_spec = looks(specs)
    found, seen = [], dict.fromkeys(specs, 0)
    for spec in specs:
        look = by_spec[spec]
        others = [dashes for dashes in DASHES if dashes != look.dashes]
        turn = [look.dashes, *others][seen[spec] % len(DASHES)]
        found.append(look._replace(dashes=turn))
        seen[spec] += 1
    return found


def _columns(run: RunStatus) -> dict[str, list[float | None]]:
    """The metrics by name, one value per evaluation; None for what is not finite."""
    rows: list[dict[str, Any]] = [dict(row) for row in run.rows]
    if len(rows) > MOST_POINTS:
        last = len(rows) - 1
        rows = [rows[round(i * last / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [_finite(row.get(name)) for row in rows] for name in names}


def _finite(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(f"{value:.6g}") if known and math.isfinite(float(f"{value}")) else None


def _nodes(run: RunStatus) -> list[list[float]]:
    """[epoch, number of nodes] at the start, at every change and at the last evaluation."""
    if not run.changes:
        return [[0, run.nodes], [run.epoch, run.nodes]]
    first = run.changes[0].get("nodes_before", run.nodes)
    steps = [[c.get("epoch", 0), c.get("nodes", run.nodes)] for c in run.changes]
    return [[0, first], *steps, [max(run.epoch, steps[-1][0]), run.nodes]]


def _charts(runs: Sequence[RunStatus], measure: str) -> str:
    validated = any(f"validation_{measure}" in row for run in runs for row in run.rows)
    charts = {
        "test": f"Test {UNITS[measure]}",
        **({"validation": f"Validation {UNITS[measure]}"} if validated else {}),
        "train_loss": "Training loss",
        "consensus_distance": "Consensus distance (1/n) Σ |xᵢ − mean|²",
        "bytes_per_node": "Bytes sent per node",
        **({"nodes": "Number of nodes"} if any(run.changes for run in runs) else {}),
    }
    return "\n".join(
        f'<section><h2>{escape(title)}</h2><div id="{name}" class="chart"></div></section>'
        for name, title in charts.items()
    )
