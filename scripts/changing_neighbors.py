"""Does it matter in training that neighbors change, or that periods are exact?

    python scripts/changing_neighbors.py --data-dir data --out docs/results/neighbors

Topologies as they are, and with nodes that are renamed at every step (`shuffled=1`: neighbors
change; what was exact no longer is) or after every period (what was exact still is). Degree,
weights and bytes are the same. LeNet on CIFAR-10, n = 25, momentum SGD, α = 0.1.

Runs are below `--out`/runs, without checkpoints. Those that are there are not made again; several
processes may share the work, each with topologies of its own.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import basegraph as bg
from basegraph.cli.compare import find_runs
from basegraph.experiments.grid import run_name
from basegraph.experiments.reporting import markdown, origins
from basegraph.experiments.statistics import rounded, spread, standard_error
from basegraph.experiments.store import ResultFolder
from basegraph.topologies.catalog import parse_specs

N, SEEDS = 25, (0, 1, 2)
TOPOLOGIES = (
    *("base:k=4", "base:k=4,shuffled=2", "base:k=4,shuffled=1"),
    *("base:k=1", "base:k=1,shuffled=9", "base:k=1,shuffled=1"),
    *("exponential", "exponential:shuffled=1"),
    *("ring", "ring:shuffled=1"),
    *("one-peer-exponential", "one-peer-exponential:shuffled=1"),
)
SETTINGS = {
    "nodes": N,
    "alpha": 0.1,
    "model": "lenet:order=published",
    "normalize": "half",
    "algorithm": "dsgdm",
    "lr": 0.1,
    "precision": "float32",
    "evaluate_every": 5,
    "checkpoint_last": False,
}


def make(folder: Path, configs: dict[str, bg.RunConfig]) -> None:
    """Make the runs that are not there yet."""
    for name, config in configs.items():
        if not (folder / name).exists():
            print(name, flush=True)
            bg.train(config, folder / name)


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for every topology, with the difference from the one that is not shuffled."""
    ends: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for run in runs:
        if run["rows"][-1]["epoch"] < run["config"]["epochs"]:
            continue  # it is being made, or was stopped
        ends[run["config"]["topology"]][run["config"]["seed"]] = run["rows"][-1]
    rows = []
    for spec in [t for t in TOPOLOGIES if t in ends]:
        plain = ends.get(spec.partition("shuffled")[0].rstrip(",:"), {})
        mine = {seed: 100 * row["test_accuracy_averaged"] for seed, row in ends[spec].items()}
        gaps = [a - 100 * plain[s]["test_accuracy_averaged"] for s, a in mine.items() if s in plain]
        losses = [row["train_loss"] for row in ends[spec].values()]
        own = [100 * row["test_accuracy"] for row in ends[spec].values()]
        shuffles = "shuffled" in spec
        rows.append(
            {
                "topology": spec,
                "seeds": len(mine),
                "averaged model %": round(mean(mine.values()), 2),
                "±": rounded(spread(list(mine.values())), 2),
                "above unshuffled": round(mean(gaps), 2) if shuffles and gaps else "–",
                "standard error": rounded(standard_error(gaps), 2) if shuffles else "–",
                "nodes %": round(mean(own), 2),
                "nodes' loss on their own data": round(mean(losses), 3),
                "D(0.05)": round(_disagreement(spec), 3),
            }
        )
    return rows


def _disagreement(spec: str) -> float:
    """D(0.05), estimated: renamed topologies have no period."""
    return bg.training_disagreement(bg.topology(spec, n=N), 0.05, samples=64, steps=1500)


def main() -> None:
    """Make the runs, or some of them, and write the table of all that are there."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--dataset", default="images:cifar10-jpeg")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--topologies", default=",".join(TOPOLOGIES))
    parser.add_argument("--draw", action="store_true", help="make no run: write the table only")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    files = ["neighbors.csv", "neighbors.md"]
    folder = ResultFolder(arguments.out, files, force=True)
    chosen = parse_specs("--topologies", arguments.topologies)
    configs = {
        run_name({"topology": spec, "seed": seed}): bg.RunConfig(
            **SETTINGS,
            dataset=arguments.dataset,
            data_dir=str(arguments.data_dir),
            topology=spec,
            seed=seed,
            epochs=arguments.epochs,
        )
        for seed in SEEDS
        for spec in chosen
    }
    if not arguments.draw:
        make(arguments.out / "runs", configs)
    runs = find_runs([arguments.out / "runs"])
    rows, seeds = table(runs), sorted({run["config"]["seed"] for run in runs})
    folder.table("neighbors.csv", rows)
    folder.text("neighbors.md", markdown(rows))
    folder.provenance(f"{arguments.dataset}, seeds {seeds}", runs=origins(folder))
    print(markdown(rows))


if __name__ == "__main__":
    main()
