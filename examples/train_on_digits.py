"""Train 25 nodes on digits, very unequally distributed (α = 0.1), over four topologies.

    python examples/train_on_digits.py [FOLDER] [--seeds 3] [--epochs 100]

Everything is trained anew: the table shows the mean over seeds ± standard deviation, the figure the
test accuracy of the nodes and of their averaged model against epochs and against bytes sent. Three
seeds take half a minute of computing on a CPU.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import basegraph as bg
from basegraph.plots import draw_learning

CASES = [
    ("all-reduce", {"algorithm": "allreduce-sgd", "topology": "complete"}),
    ("base:k=1", {"topology": "base:k=1"}),
    ("one-peer-exponential", {"topology": "one-peer-exponential"}),
    ("ring", {"topology": "ring"}),
]
LINE = "{:22}{:>14}{:>14}{:>14}{:>10}{:>9}"
COMMON = {"nodes": 25, "dataset": "digits", "model": "mlp", "alpha": 0.1, "lr": 0.1}


def main() -> None:
    """Train, print the table, draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args()
    folder, seeds = options.folder, range(options.seeds)
    runs = folder / "digits-runs"
    shared = {**COMMON, "epochs": options.epochs, "threads": 1}  # small models: more would wait
    print(f"25 nodes, digits, α = 0.1, momentum SGD, {options.epochs} epochs, {len(seeds)} seed(s)")
    print(
        LINE.format("topology", "nodes' mean %", "average %", "worst node %", "distance", "MB sent")
    )
    curves = []
    for name, fields in CASES:
        last = []
        for seed in seeds:
            out = runs / f"{name}-seed{seed}"
            shutil.rmtree(out, ignore_errors=True)
            config = bg.RunConfig(**shared, **fields, seed=seed)
            rows = bg.train(config, out)
            last.append(rows[-1])
            curves.append({"config": asdict(config), "rows": rows})
        print(
            LINE.format(
                name,
                spread(last, "test_accuracy"),
                spread(last, "test_accuracy_averaged"),
                spread(last, "test_accuracy_worst"),
                f"{fmean(r['consensus_distance'] for r in last):.1g}",
                f"{fmean(r['bytes_per_node'] for r in last) / 1e6:.1f}",
            ),
            flush=True,
        )
    draw_learning(curves, [folder / "learning.png"], models=("nodes", "averaged"))
    print(f"\nfigure: {folder / 'learning.png'}   runs: {runs}")


def spread(rows: list[dict[str, Any]], field: str) -> str:
    """Mean ± standard deviation over seeds, in percent."""
    values = [100 * row[field] for row in rows]
    deviation = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{deviation}"


if __name__ == "__main__":
    main()
