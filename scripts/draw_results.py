"""Draw the learning curves under docs/results again, from the files beside them.

    python scripts/draw_results.py

The runs of mnist are summed up in curves.csv, those of vgg11 are there as a whole. Of the pairs
only the ends are kept, so that their curves cannot be drawn again.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from basegraph.cli.compare import find_runs
from basegraph.plots.learning import draw_learning

RESULTS = Path(__file__).parents[1] / "docs" / "results"
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


def main() -> None:
    """Draw what can be drawn."""
    for alpha in (0.1, 10.0):
        draw_learning(mnist(alpha), [RESULTS / "mnist" / f"curves-{alpha:g}.png"])
    draw_learning(vgg11(), [RESULTS / "vgg11" / "curves.png"], models=("nodes", "averaged"))


if __name__ == "__main__":
    main()
