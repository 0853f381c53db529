"""Tables, verdicts and curves of the paper's training figures, from whatever runs are there."""

from __future__ import annotations

from statistics import mean
from typing import Any, Literal

from basegraph.experiments.claims import Curves, Panel, differences, judged
from basegraph.experiments.figures import Figure
from basegraph.experiments.learning import ALL_REDUCE, Cell, Experiment, Key
from basegraph.experiments.reporting import markdown
from basegraph.experiments.statistics import listed, rounded, spread, standard_error
from basegraph.plots.learning import draw_learning, title_of
from basegraph.training.metrics import Metrics

REFERENCE = "base:k=1"
Accuracy = Literal["test_accuracy", "test_accuracy_averaged"]
ACCURACIES: dict[Accuracy, str] = {
    "test_accuracy": "nodes",
    "test_accuracy_averaged": "averaged model",
}
"""The nodes' own accuracy depends on where in a topology's period an evaluation falls."""
NEARLY = 0.01
"""How far from the best a model is good enough."""
COLLAPSE = 0.1
"""A run collapsed if its averaged model ends so far below where it was on the way."""
TABLES = ("runs.csv", "learning.csv", "learning.md", "claims.md", "milestones.md", "curves.csv")
COLUMNS = ("epoch", "train_loss", "test_accuracy", "test_accuracy_averaged", "test_accuracy_worst",
           "validation_accuracy", "consensus_distance", "bytes_per_node", "seconds")  # fmt: skip


def panels_of(figure: Figure) -> list[Panel]:
    """α, n and method of every panel of a figure."""
    return [(a, n, m) for a in figure.alphas for n in figure.nodes for m in figure.methods]


def picture(panel: Panel, averaged: bool = False) -> str:
    """The file with a panel's curves."""
    alpha, n, method = panel
    name = method.replace(":", "-").replace("=", "")
    return f"curves-{alpha:g}-{n}-{name}{'-averaged' if averaged else ''}.png"


def outputs(figure: Figure) -> list[str]:
    """The files that are written."""
    return [
        *TABLES,
        "missing.txt",
        *(picture(p, a) for p in panels_of(figure) for a in (False, True)),
    ]


def report(
    name: str, experiment: Experiment
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Write tables and curves of the runs that are there.

    Args:
        name: Of the figure.
        experiment: Its runs.

    Returns:
        The table, the paper's claims with their verdicts, and the names of missing runs.

    """
    folder, known = experiment.folder, experiment.known()
    finished = experiment.finished(known)
    missing = [key.name for key in experiment.left(known)]
    folder.text("missing.txt", "".join(f"{line}\n" for line in missing))
    kept = experiment.chosen(finished)
    folder.table("runs.csv", [_row(experiment, key, finished, key in kept) for key in known])
    if not finished:
        folder.remove_older()
        return [], [], missing
    curves = curves_of(experiment, kept)
    table = summary(experiment, finished, curves)
    panels = panels_of(experiment.figure)
    every = experiment.every
    cells = [*every.trained, *every.same, *every.unstable]
    lost = lost_cells(experiment, finished)
    claims = judged(name, panels, cells, experiment.seeds, curves, lost)
    folder.table("learning.csv", table)
    folder.text("learning.md", markdown(table))
    folder.text("claims.md", markdown(claims) + "\n" + _orders(experiment, table))
    folder.text("milestones.md", markdown(milestones(curves)))
    folder.table("curves.csv", [row for key, rows in kept.items() for row in _curve(key, rows)])
    for panel in panels:
        drawn = {key: rows for key, rows in kept.items() if _in(key, panel)}
        runs = [
            {"run": key.name, "config": _shown(key), "rows": rows} for key, rows in drawn.items()
        ]
        for averaged in (False, True) if runs else ():
            draw_learning(
                runs,
                [folder.picture(picture(panel, averaged))],
                models=("averaged" if averaged else "nodes",),
                title=_title(experiment, panel),
            )
    folder.remove_older()
    return table, claims, missing


def lost_cells(experiment: Experiment, finished: dict[Key, list[Metrics]]) -> dict[Cell, str]:
    """What happened to cells of which not all runs say something."""
    diverged = experiment.diverged_seeds(finished)
    losses = {cell: f"diverged in seeds {listed(seeds)}" for cell, seeds in diverged.items()}
    losses |= dict.fromkeys(experiment.hopeless(), "diverged with every η")
    losses |= {c: losses[other] for c, other in experiment.every.same.items() if other in losses}
    return losses | dict.fromkeys(experiment.every.unstable, "is unstable")


def curves_of(experiment: Experiment, kept: dict[Key, list[Metrics]]) -> Curves:
    """The runs of every cell by seed; cells with the same rounds have the same runs."""
    curves: dict[Cell, dict[int, list[Metrics]]] = {}
    for key, rows in kept.items():
        curves.setdefault(key.cell, {})[key.seed] = rows
    same = {c: curves[other] for c, other in experiment.every.same.items() if other in curves}
    return curves | same


def summary(
    experiment: Experiment, finished: dict[Key, list[Metrics]], curves: Curves
) -> list[dict[str, Any]]:
    """Where the cells ended, the best first in every panel; last those with seeds that diverged."""
    failed, best = experiment.sweep.failed(), experiment.best_so_far(finished)
    lost = experiment.diverged_seeds(finished)
    left = {key.name for key in experiment.left(experiment.tried)}
    table = []
    for cell in experiment.cells:
        runs = curves.get(cell, {})
        if not runs:
            continue
        last = {seed: rows[-1] for seed, rows in runs.items()}
        tried = [key.name for key in experiment.tried if key.cell == cell]
        own = [100 * row["test_accuracy"] for row in last.values()]
        averaged = [100 * row["test_accuracy_averaged"] for row in last.values()]
        table.append(
            {
                **cell.named(),
                "lr": best[cell],
                "rates tried": f"{sum(name not in left for name in tried)} of {len(tried)}",
                "rates diverged": sum(name in failed for name in tried),
                "seeds": len(runs),
                "seeds diverged": listed(lost.get(cell)),
                "seeds collapsed": listed(s for s, rows in runs.items() if collapsed(rows)),
                "test %": round(mean(own), 2),
                "± %": rounded(spread(own), 2),
                **_above(curves, cell, experiment.figure),
                "averaged model %": round(mean(averaged), 2),
                "averaged ± %": rounded(spread(averaged), 2),
                "worst node %": round(
                    mean(100 * row["test_accuracy_worst"] for row in last.values()), 2
                ),
                "consensus distance": float(
                    f"{mean(row['consensus_distance'] for row in last.values()):.3g}"
                ),
                "MB per node": round(mean(r["bytes_per_node"] for r in last.values()) / 1e6, 1),
            }
        )
    order = list(dict.fromkeys((row["α"], row["n"], row["method"]) for row in table))

    def place(row: dict[str, Any]) -> tuple[int, bool, float]:
        panel = row["α"], row["n"], row["method"]
        return order.index(panel), row["seeds diverged"] != "–", -row["test %"]

    return sorted(table, key=place)


def collapsed(rows: list[Metrics]) -> bool:
    """Whether a run lost what it had learned, and went on with finite numbers.

    By the averaged model: the nodes' own accuracy swings with the topology's period.
    """
    accuracies = [row["test_accuracy_averaged"] for row in rows]
    return max(accuracies) - accuracies[-1] > COLLAPSE


def milestones(curves: Curves) -> list[dict[str, Any]]:
    """How far the runs are early, halfway and at the end, and what a good model has cost.

    A model is good from `NEARLY` below where the best cell of its α and n ends.
    """
    best: dict[tuple[float, int], float] = {}
    for cell, runs in curves.items():
        end = mean(rows[-1]["test_accuracy"] for rows in runs.values())
        best[cell.alpha, cell.nodes] = max(end, best.get((cell.alpha, cell.nodes), 0.0))
    table = []
    for cell, runs in curves.items():
        row: dict[str, Any] = cell.named()
        evaluations = list(zip(*runs.values(), strict=False))
        for at, share in ((len(evaluations) // 4 - 1, "1/4"), (len(evaluations) // 2 - 1, "1/2")):
            for column, title in ACCURACIES.items():
                values = [100 * one[column] for one in evaluations[at]] if at >= 0 else []
                row[f"{title} % after {share}"] = _with_spread(values) if values else "–"
        good = best[cell.alpha, cell.nodes] - NEARLY
        row["good %"] = round(100 * good, 2)
        for column, title in ACCURACIES.items():
            spent = ", ".join(_megabytes(rows, column, good) for rows in runs.values())
            row[f"{title}: MB to good, each seed"] = spent
        table.append(row)
    return table


def _with_spread(values: list[float]) -> str:
    """A mean and the deviation over seeds; one seed has none."""
    deviation = spread(values)
    return f"{mean(values):.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


def _megabytes(rows: list[Metrics], column: Accuracy, good: float) -> str:
    """What a node had sent when an accuracy was first seen to be good, in three digits or more."""
    seen = [row["bytes_per_node"] / 1e6 for row in rows if row[column] >= good]
    if not seen:
        return "never"
    return f"{seen[0]:.0f}" if seen[0] >= 100 else f"{seen[0]:.3g}"


def _above(curves: Curves, cell: Cell, figure: Figure) -> dict[str, Any]:
    """The difference from the reference of the same panel, within seeds.

    All-reduce is in all panels: where these are of several methods, it has no reference.
    """
    methods = figure.methods if cell.topology == ALL_REDUCE else (cell.method,)
    reference = cell._replace(method=methods[0], topology=REFERENCE)
    gaps = differences(curves, cell, reference) if len(methods) == 1 else []
    return {
        f"above {REFERENCE}": round(mean(gaps), 2) if gaps else "–",
        "standard error": rounded(standard_error(gaps), 2),
    }


def _orders(experiment: Experiment, table: list[dict[str, Any]]) -> str:
    """Our order of every panel by final accuracy of the nodes' own models, the best first."""
    lines, hopeless = [], experiment.hopeless()
    cramped: dict[Cell, set[int]] = {}
    for key in experiment.out_of_memory():
        cramped.setdefault(key.cell, set()).add(key.seed)
    for alpha, n, method in panels_of(experiment.figure):
        rows = [r for r in table if (r["α"], r["n"], r["method"]) == (alpha, n, method)]
        whole, cut = ([r for r in rows if (r["seeds diverged"] == "–") is w] for w in (True, False))
        order = " > ".join(f"{row['topology']} ({row['test %']:.2f})" for row in whole)
        lost = [f"{row['topology']} in seeds {row['seeds diverged']}" for row in cut]
        lost += [
            f"{cell.topology} with every η"
            for cell in hopeless
            if (cell.alpha, cell.nodes, cell.method) == (alpha, n, method)
        ]
        fallen = [
            f"{row['topology']} in seeds {row['seeds collapsed']}"
            for row in rows
            if row["seeds collapsed"] != "–"
        ]
        unfit = [
            f"{cell.topology} in seeds {listed(sorted(seeds))}"
            for cell, seeds in cramped.items()
            if (cell.alpha, cell.nodes, cell.method) == (alpha, n, method)
        ]
        if rows or lost or unfit:
            told = [order]
            told += [f"diverged: {'; '.join(lost)}"] if lost else []
            told += [f"collapsed: {'; '.join(fallen)}"] if fallen else []
            told += [f"out of memory: {'; '.join(unfit)}"] if unfit else []
            lines.append(f"- α = {alpha:g}, n = {n}, {method}: {'; '.join(filter(None, told))}\n")
    return "Our order, by the nodes' own final accuracy in percent:\n\n" + "".join(lines)


def _in(key: Key, panel: Panel) -> bool:
    alpha, n, method = panel
    cell = key.cell
    mine = cell.method == method or cell.topology == ALL_REDUCE
    return (cell.alpha, cell.nodes) == (alpha, n) and mine


def _row(
    experiment: Experiment, key: Key, finished: dict[Key, list[Metrics]], kept: bool
) -> dict[str, Any]:
    """A run, as far as it has come."""
    last: dict[str, Any] = {**finished[key][-1]} if key in finished else {}
    return {
        **key.cell.named(),
        "lr": key.lr,
        "seed": key.seed,
        "in the table": kept,
        "outcome": experiment.outcome(key, key in finished),
        **{column: last.get(column, "") for column in COLUMNS},
    }


def _curve(key: Key, rows: list[Metrics]) -> list[dict[str, Any]]:
    """Every evaluation of a run."""
    return [
        {
            **key.cell.named(),
            "lr": key.lr,
            "seed": key.seed,
            "epoch": row["epoch"],
            "test_accuracy": round(row["test_accuracy"], 6),
            "test_accuracy_averaged": round(row["test_accuracy_averaged"], 6),
            "consensus_distance": float(f"{row['consensus_distance']:.3g}"),
            "bytes_per_node": row["bytes_per_node"],
        }
        for row in rows
    ]


def _title(experiment: Experiment, panel: Panel) -> str:
    alpha, n, method = panel
    shared = {name: experiment.settings.get(name) for name in ("dataset", "model")}
    return f"{title_of([{**shared, 'nodes': n, 'alpha': alpha}])}, {method}"


def _shown(key: Key) -> dict[str, Any]:
    """The configuration as a curve's label tells it."""
    return {"topology": key.cell.topology, "algorithm": f"η = {key.lr:g}"}
