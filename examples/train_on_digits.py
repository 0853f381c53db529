"""Train 25 nodes on digits, very unequally distributed (α = 0.1), over four topologies.

    python examples/train_on_digits.py [FOLDER]

Everything is trained anew with three seeds: the table shows mean ± standard deviation, the figure
test accuracy against epochs and against bytes sent. About two minutes on two CPU cores.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from basegraph.cli.compare import read_run
from basegraph.cli.output import progress, table
from basegraph.plots.learning import draw_learning
from basegraph.training._train import train
from basegraph.training.config import RunConfig

CASES = [
    ("all-reduce", {"algorithm": "allreduce-sgd", "topology": "complete"}),
    ("base:k=1", {"topology": "base:k=1"}),
    ("one-peer-exponential", {"topology": "one-peer-exponential"}),
    ("ring", {"topology": "ring"}),
]
SEEDS = (0, 1, 2)
COMMON = {"nodes": 25, "dataset": "digits", "model": "mlp", "alpha": 0.1, "lr": 0.1, "epochs": 100}


def main() -> None:
    """Train, print the table, draw the curves."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    runs = folder / "digits-runs"
    print("25 nodes, digits with Dirichlet α = 0.1, momentum SGD, 100 epochs, 3 seeds each")
    jobs = [(name, fields, seed) for seed in SEEDS for name, fields in CASES]
    for name, fields, seed in progress(jobs, "training"):
        out = runs / f"{name}-seed{seed}"
        shutil.rmtree(out, ignore_errors=True)
        train(RunConfig(**COMMON, **fields, seed=seed), out)
    rows = []
    for name, _ in CASES:
        last = [read_run(runs / f"{name}-seed{seed}")["rows"][-1] for seed in SEEDS]
        rows.append(
            (
                name,
                spread(last, "test_accuracy"),
                spread(last, "test_accuracy_worst"),
                f"{fmean(r['consensus_distance'] for r in last):.1g}",
                f"{fmean(r['bytes_per_node'] for r in last) / 1e6:.1f}",
            )
        )
    columns = ["topology", "test accuracy %", "worst node %", "distance between nodes", "MB sent"]
    table(columns, rows)
    draw_learning([read_run(path) for path in sorted(runs.iterdir())], [folder / "learning.png"])
    print(f"\nfigure: {folder / 'learning.png'}   runs: {runs}")


def spread(rows: list[dict[str, Any]], field: str) -> str:
    """Mean ± standard deviation in percent."""
    values = [100 * row[field] for row in rows]
    return f"{fmean(values):.1f} ± {pstdev(values):.1f}"


if __name__ == "__main__":
    main()
