"""Training on every topology with the paper's settings for Fashion-MNIST (Sec. 6.2, App. G).

LeNet with group normalization, 25 nodes, DSGD with momentum 0.9, batch 32, random crops, ten epochs
of warm-up and a cosine over 200 epochs. For every topology and α the step size is the one of {0.1,
0.01, 0.001} with the best validation accuracy of the first seed; with it the other seeds are run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import mean, pstdev
from typing import Any, Literal

from basegraph.errors import BasegraphError
from basegraph.experiments.grid import expand
from basegraph.experiments.reporting import markdown
from basegraph.experiments.store import ResultFolder
from basegraph.experiments.sweep import SweepFolder, SweepWatcher, run_sweep
from basegraph.plots.learning import draw_learning
from basegraph.training.config import RunConfig
from basegraph.training.metrics import Metrics

TOPOLOGIES = (
    "base:k=1",
    "base:k=2",
    "base:k=3",
    "base:k=4",
    "one-peer-exponential",
    "exponential",
    "ring",
    "torus",
)
RATES = (0.1, 0.01, 0.001)
AccuracyColumn = Literal["test_accuracy", "test_accuracy_averaged"]
ACCURACY_COLUMNS: dict[AccuracyColumn, str] = {
    "test_accuracy": "nodes",
    "test_accuracy_averaged": "averaged model",
}
"""The nodes' own accuracy depends on where in a topology's period an evaluation falls."""
GOOD = 0.99
"""An accuracy that is worth waiting for."""


def outputs(alphas: list[float]) -> list[str]:
    """The files that are written."""
    pictures = (f"curves-{alpha:g}.png" for alpha in alphas)
    return ["runs.csv", "accuracy.csv", "accuracy.md", "curves.csv", "milestones.md", *pictures]


def grids(alphas: list[float], rates: list[float], seeds: list[int]) -> list[dict[str, Any]]:
    """Every topology, and all-reduce."""
    shared = {"alpha": alphas, "lr": rates, "seed": seeds}
    return [
        {"topology": list(TOPOLOGIES), **shared},
        {"algorithm": ["allreduce-sgd"], **shared},
    ]


def reproduce(
    folder: ResultFolder,
    settings: dict[str, Any],
    seeds: list[int],
    alphas: list[float],
    *,
    resume: bool = False,
    progress: Callable[[list[str]], SweepWatcher] = lambda names: SweepWatcher(),
) -> list[dict[str, Any]]:
    """Make all runs (or what is left of them) and write the files; returns the table."""
    what = RunConfig(**settings).computes()
    sweep = SweepFolder(folder / "runs", json.dumps(what, indent=2) + "\n", resume=resume)

    def made(runs: RunsByName) -> RunsByName:
        run_sweep(runs, sweep, progress=progress(list(sweep.left(runs))))
        return runs

    tried = made(expand(settings, grids(alphas, list(RATES), seeds[:1]), "mnist"))
    chosen = best_rates(tried, sweep)
    if not chosen:
        raise BasegraphError(f"every run failed: see {sweep.failures}")
    again = expand(settings, grids(alphas, list(RATES), seeds[1:]), "mnist") if seeds[1:] else {}
    others = made({n: run for n, run in again.items() if run.lr == chosen.get(tuned_for(run))})
    best = {n: run for n, run in tried.items() if run.lr == chosen.get(tuned_for(run))}
    kept, every = best | others, tried | others
    folder.table("runs.csv", [_row(n, run, sweep, n in kept) for n, run in every.items()])
    table = summary(kept, sweep)
    folder.table("accuracy.csv", table)
    folder.text("accuracy.md", markdown(table))
    folder.table("curves.csv", [row for n, run in kept.items() for row in _curve(n, run, sweep)])
    folder.text("milestones.md", markdown(milestones(kept, sweep)))
    for alpha in alphas:
        runs = {n: run for n, run in kept.items() if run.alpha == alpha and sweep.rows(n)}
        curves = [{"config": _shown(run), "rows": sweep.rows(n)} for n, run in runs.items()]
        draw_learning(curves, [folder / f"curves-{alpha:g}.png"])
    return table


RunsByName = dict[str, RunConfig]
"""Configurations by the names of their folders."""


def tuned_for(run: RunConfig) -> tuple[str, float]:
    """What a step size is chosen for: the topology (or all-reduce) and α."""
    central = run.algorithm == "allreduce-sgd"
    return "all-reduce" if central else run.topology, run.alpha


def best_rates(tried: RunsByName, sweep: SweepFolder) -> dict[tuple[str, float], float]:
    """The step size with the best last validation accuracy; of equals, the largest."""
    best: dict[tuple[str, float], tuple[float, float]] = {}
    failed = sweep.failed()
    for name, run in tried.items():
        rows = sweep.rows(name)
        if name not in failed and rows:
            result = (rows[-1]["validation_accuracy"], run.lr)
            best[tuned_for(run)] = max(best.get(tuned_for(run), (-1.0, 0.0)), result)
    return {key: rate for key, (_, rate) in best.items()}


def summary(kept: RunsByName, sweep: SweepFolder) -> list[dict[str, Any]]:
    """Mean and standard deviation over seeds, by topology and α."""
    failed = sweep.failed()
    names: dict[tuple[str, float], list[str]] = defaultdict(list)
    for run_name, run in kept.items():
        names[tuned_for(run)].append(run_name)
    table = []
    for (name, alpha), runs in sorted(names.items(), key=lambda item: -item[0][1]):
        good = [run for run in runs if run not in failed and sweep.rows(run)]
        if not good:
            continue
        last = [sweep.rows(run)[-1] for run in good]
        test = [100 * row["test_accuracy"] for row in last]
        averaged = [100 * row["test_accuracy_averaged"] for row in last]
        table.append(
            {
                "alpha": alpha,
                "topology": name,
                "lr": kept[good[0]].lr,
                "seeds": len(good),
                "diverged": len(runs) - len(good),
                "test %": round(mean(test), 2),
                "± %": round(pstdev(test), 2),
                "averaged model %": round(mean(averaged), 2),
                "averaged ± %": round(pstdev(averaged), 2),
                "worst node %": round(mean(100 * r["test_accuracy_worst"] for r in last), 2),
                "consensus distance": float(f"{mean(r['consensus_distance'] for r in last):.3g}"),
                "MB per node": round(mean(r["bytes_per_node"] for r in last) / 1e6, 1),
            }
        )
    return table


def milestones(kept: RunsByName, sweep: SweepFolder) -> list[dict[str, Any]]:
    """How far the runs are early, halfway and at the end, and what a good model has cost."""
    curves: dict[tuple[str, float], list[list[Metrics]]] = defaultdict(list)
    for run_name, run in kept.items():
        if run_name not in sweep.failed() and sweep.rows(run_name):
            curves[tuned_for(run)].append(sweep.rows(run_name))
    table = []
    for (name, alpha), runs in sorted(curves.items(), key=lambda item: -item[0][1]):
        row: dict[str, Any] = {"alpha": alpha, "topology": name}
        count = len(runs[0])
        for at in sorted({0, count // 4 - 1, count - 1} & set(range(count))):
            epoch = runs[0][at]["epoch"]
            for column, title in ACCURACY_COLUMNS.items():
                shares = [100 * rows[at][column] for rows in runs]
                row[f"{title} % at epoch {epoch}"] = f"{mean(shares):.2f} ± {pstdev(shares):.2f}"
        for column, title in ACCURACY_COLUMNS.items():
            spent = ", ".join(_megabytes(rows, column) for rows in runs)
            row[f"{title}: MB to {GOOD:.0%}, each seed"] = spent
        table.append(row)
    return table


def _megabytes(rows: list[Metrics], column: AccuracyColumn) -> str:
    """What a node had sent when an accuracy was first seen to be good."""
    good = [row["bytes_per_node"] for row in rows if row[column] >= GOOD]
    return f"{good[0] / 1e6:.0f}" if good else "never"


def _row(run_name: str, run: RunConfig, sweep: SweepFolder, kept: bool) -> dict[str, Any]:
    name, alpha = tuned_for(run)
    rows = sweep.rows(run_name)
    last: Mapping[str, Any] = rows[-1] if rows else {}
    columns = ("epoch", "train_loss", "test_accuracy", "test_accuracy_averaged",
               "test_accuracy_worst", "validation_accuracy", "consensus_distance",
               "bytes_per_node")  # fmt: skip
    return {
        "topology": name,
        "alpha": alpha,
        "lr": run.lr,
        "seed": run.seed,
        "in the table": kept,
        "failure": sweep.failed().get(run_name, ""),
        **{column: last.get(column, "") for column in columns},
    }


def _curve(run_name: str, run: RunConfig, sweep: SweepFolder) -> list[dict[str, Any]]:
    """Every evaluation of a run."""
    name, alpha = tuned_for(run)
    return [
        {
            "topology": name,
            "alpha": alpha,
            "seed": run.seed,
            "epoch": row["epoch"],
            "test_accuracy": round(row["test_accuracy"], 6),
            "consensus_distance": float(f"{row['consensus_distance']:.3g}"),
            "bytes_per_node": row["bytes_per_node"],
        }
        for row in sweep.rows(run_name)
    ]


def _shown(run: RunConfig) -> dict[str, Any]:
    """The configuration as the curves' legend tells it: by topology alone."""
    return {**vars(run), "lr": None}
