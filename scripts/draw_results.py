"""Draw the learning curves under docs/results again, from the files beside them.

    python scripts/draw_results.py

Of mnist and of the earlier training figures curves.csv was kept, of vgg11 the runs themselves. Of
the pairs only the ends were kept, so that their curves cannot be drawn again.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from basegraph.cli.compare import find_runs
from basegraph.experiments.figures import FIGURES
from basegraph.experiments.learning import ALL_REDUCE
from basegraph.experiments.learning_report import panels_of, picture
from basegraph.plots.learning import draw_learning, title_of

RESULTS = Path(__file__).parents[1] / "docs" / "results"
EARLIER = {"nodes": "nodes", "methods-earlier": "methods"}
"""Folders of which curves.csv was kept and the runs were not, and the figures they are."""
MADE_AGAIN = ("d2-published", "qg-dsgdm", "qg-dsgdm-published")
"""Methods whose pictures are drawn from later runs."""
LENET = {"dataset": "images:cifar10-jpeg", "model": "lenet:order=published"}
MNIST = {"algorithm": "dsgdm", "nodes": 25, "dataset": "mnist", "model": "lenet"}


def mnist(alpha: float) -> list[dict[str, Any]]:
    """The runs of one α, as `draw_learning` takes them."""
    runs: dict[tuple[str, int], dict[str, Any]] = {}
    with (RESULTS / "mnist" / "curves.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if float(row["alpha"]) != alpha:
                continue
            central = row["topology"] == "all-reduce"
            config = {**MNIST, "topology": row["topology"], "alpha": alpha, "seed": row["seed"]}
            config |= {"algorithm": "allreduce-sgd"} if central else {}
            key = (row["topology"], int(row["seed"]))
            run = runs.setdefault(key, {"config": config, "rows": []})
            columns = ("epoch", "test_accuracy", "bytes_per_node")
            run["rows"].append({name: float(row[name]) for name in columns})
    return list(runs.values())


def vgg11() -> list[dict[str, Any]]:
    """All runs; that seed 0 had the same data under another path is no difference."""
    runs = find_runs([RESULTS / "vgg11"])
    return [{**run, "config": {**run["config"], "dataset": "CIFAR-10"}} for run in runs]


def draw_earlier(name: str, figure: str) -> None:
    """Every panel of a training figure but for those of methods that were made again."""
    folder = RESULTS / "learning" / name
    with (folder / "curves.csv").open(newline="", encoding="utf-8") as file:
        evaluations = list(csv.DictReader(file))
    for alpha, n, method in panels_of(FIGURES[figure]):
        if method in MADE_AGAIN:
            continue
        runs: dict[tuple[str, str], dict[str, Any]] = {}
        for row in evaluations:
            if (float(row["α"]), int(row["n"])) != (alpha, n):
                continue
            if row["method"] != method and row["topology"] != ALL_REDUCE:
                continue
            config = {"topology": row["topology"], "algorithm": f"η = {float(row['lr']):g}"}
            run = runs.setdefault((row["topology"], row["seed"]), {"config": config, "rows": []})
            columns = ("epoch", "test_accuracy", "test_accuracy_averaged", "bytes_per_node")
            run["rows"].append({name: float(row[name]) for name in columns})
        title = f"{title_of([{**LENET, 'nodes': n, 'alpha': alpha}])}, {method}"
        for averaged in (False, True) if any(t != ALL_REDUCE for t, _ in runs) else ():
            path = folder / picture((alpha, n, method), averaged)
            models = ("averaged" if averaged else "nodes",)
            draw_learning(list(runs.values()), [path], models=models, title=title)


def main() -> None:
    """Draw what can be drawn."""
    for alpha in (0.1, 10.0):
        draw_learning(mnist(alpha), [RESULTS / "mnist" / f"curves-{alpha:g}.png"])
    draw_learning(vgg11(), [RESULTS / "vgg11" / "curves.png"], models=("nodes", "averaged"))
    for name, figure in EARLIER.items():
        draw_earlier(name, figure)


if __name__ == "__main__":
    main()
