"""Sum up what the runs under docs/results say about accuracy, for `basegraph advise`.

    python scripts/measured_accuracy.py --out src/basegraph/experiments/measured_accuracy.json

Every comparison is of topologies in one setting: data, model, n, α, method, learning rate.
Accuracies are those of the nodes' own models at the end, in percent; topologies are compared with
base:k=1 within seeds. Nothing is chosen here but what the experiments put in their tables.
"""

from __future__ import annotations

import argparse
import csv
import json
import tomllib
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from basegraph.experiments.advice_options import TOPOLOGIES
from basegraph.experiments.measured_accuracy import REFERENCE
from basegraph.storage.files import replacing
from basegraph.topologies.catalog import topology
from basegraph.topologies.core._digest import digest

RESULTS = Path(__file__).parents[1] / "docs" / "results"
NAMES = {"mnist": "MNIST", "images:cifar10-jpeg": "CIFAR-10", "digits": "digits"}
TABLES = {
    "mnist": {"dataset": "mnist", "model": "lenet", "lr": "the best of 0.1, 0.01 and 0.001"},
    "pairs-cifar10": {"dataset": "images:cifar10-jpeg", "model": "lenet"},
    "pairs-cifar10-0.02": {"dataset": "images:cifar10-jpeg", "model": "lenet"},
    "pairs-digits": {"dataset": "digits", "model": "mlp"},
}
"""Folders with a runs.csv, and what neither it nor the command says: the command's defaults."""
FIGURES = {
    "learning/dsgd": {
        "dataset": "images:cifar10-jpeg",
        "model": "lenet",
        "algorithm": "dsgdm",
        "lr": "the best of 0.1, 0.01 and 0.001",
    }
}
"""Folders of `basegraph reproduce learning`, whose runs.csv has n and α."""
DEFAULTS = {"nodes": 25, "alpha": 0.1, "algorithm": "dsgdm"}
RUN_FOLDERS = {"vgg11": {"dataset": "images:cifar10-jpeg"}}
"""Folders of whole runs, which say everything; the dataset by one name for all its paths."""
FORMAT = {
    "about": "Final test accuracies of topologies under docs/results, made by "
    "scripts/measured_accuracy.py; read by basegraph/experiments/measured_accuracy.py.",
    "fields": {
        "source": "folder under docs/results, whose provenance.json says where the runs came from",
        "lr": "the learning rate, or which one was taken",
        "split_order": "which node held which share: shuffled, or by-class (see docs/results)",
        "topologies": "spec, or all-reduce -> what was measured",
        "seeds": "how many runs the accuracy is the mean of",
        "accuracy": "mean over nodes and seeds, percent; deviation: over seeds",
        "averaged": "of the average of the nodes' models, percent",
        "above": f"difference from {REFERENCE} within seeds, points; error: its standard error",
        "same": "specs with the same rounds on this number of nodes",
    },
}


def from_table(folder: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The comparisons of a folder with a runs.csv, one per α and learning rate."""
    origin = json.loads((RESULTS / folder / "provenance.json").read_text(encoding="utf-8"))
    shared = {**DEFAULTS, **fields, "split_order": origin["data"].rpartition("split ")[2]}
    runs = []
    with (RESULTS / folder / "runs.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["failure"] or row.get("in the table", "True") != "True":
                continue
            runs.append(
                {
                    **{"lr": float(row["lr"]), **shared},
                    "alpha": float(row.get("alpha", shared["alpha"])),
                    "epochs": int(row["epoch"]),
                    **_ended(row, row["topology"], int(row["seed"])),
                }
            )
    return comparisons(f"docs/results/{folder}", runs)


def from_figure(folder: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The comparisons of a training figure, one per α and n."""
    origin = json.loads((RESULTS / folder / "provenance.json").read_text(encoding="utf-8"))
    split_order = origin["data"].rpartition("split ")[2]
    with (RESULTS / folder / "runs.csv").open(newline="", encoding="utf-8") as file:
        runs = [
            {
                **fields,
                "split_order": split_order,
                "nodes": int(row["n"]),
                "alpha": float(row["α"]),
                "epochs": int(row["epoch"]),
                **_ended(row, row["topology"], int(row["seed"])),
            }
            for row in csv.DictReader(file)
            if row["in the table"] == "True"
        ]
    return comparisons(f"docs/results/{folder}", runs)


def from_runs(folder: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The comparison of a folder of runs."""
    runs = []
    for path in sorted((RESULTS / folder).glob("*/config.toml")):
        config = tomllib.loads(path.read_text(encoding="utf-8"))
        last = json.loads(
            (path.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1]
        )
        keys = ("model", "nodes", "alpha", "algorithm", "lr", "epochs", "split_order")
        runs.append(
            {
                **{key: config[key] for key in keys},
                **fields,
                **_ended(last, config["topology"], config["seed"]),
            }
        )
    return comparisons(f"docs/results/{folder}", runs)


def _ended(row: dict[str, Any], spec: str, seed: int) -> dict[str, Any]:
    return {
        "topology": spec,
        "seed": seed,
        "accuracy": 100 * float(row["test_accuracy"]),
        "averaged": 100 * float(row["test_accuracy_averaged"]),
    }


def comparisons(source: str, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs by setting, and in each by topology."""
    keys = ("dataset", "model", "nodes", "alpha", "algorithm", "lr", "epochs", "split_order")
    settings = {json.dumps([run[key] for key in keys]): run for run in runs}
    made = []
    for chosen in settings:
        group = [run for run in runs if json.dumps([run[key] for key in keys]) == chosen]
        by_topology: dict[str, dict[int, dict[str, Any]]] = {}
        for run in group:
            by_topology.setdefault(run["topology"], {})[run["seed"]] = run
        setting = {key: settings[chosen][key] for key in keys}
        made.append(
            {
                "source": source,
                "data": NAMES[setting["dataset"]],
                **setting,
                "topologies": {
                    spec: _measured(spec, by_seed, by_topology[REFERENCE], setting["nodes"])
                    for spec, by_seed in by_topology.items()
                },
            }
        )
    return made


def _measured(
    spec: str, runs: dict[int, dict[str, Any]], reference: dict[int, dict[str, Any]], n: int
) -> dict[str, Any]:
    accuracies = [run["accuracy"] for run in runs.values()]
    gains = [
        run["accuracy"] - reference[seed]["accuracy"]
        for seed, run in runs.items()
        if seed in reference
    ]
    spread = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else None
    return {
        "seeds": len(runs),
        "accuracy": round(fmean(accuracies), 2),
        "deviation": round(stdev(accuracies), 2) if len(accuracies) > 1 else None,
        "averaged": round(fmean(run["averaged"] for run in runs.values()), 2),
        "above": round(fmean(gains), 2),
        "error": None if spread is None else round(spread, 2),
        "same": _same(spec, n),
    }


def _same(spec: str, n: int) -> list[str]:
    """Which of the topologies that `advise` ranks have these rounds on n nodes."""
    if spec == "all-reduce":
        return []
    rounds = digest(topology(spec, n))
    return [other for other in TOPOLOGIES if other != spec and digest(topology(other, n)) == rounds]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    made = [c for folder, fields in TABLES.items() for c in from_table(folder, fields)]
    made += [c for folder, fields in FIGURES.items() for c in from_figure(folder, fields)]
    made += [c for folder, fields in RUN_FOLDERS.items() for c in from_runs(folder, fields)]
    with replacing(out) as temporary:
        text = json.dumps({"format": FORMAT, "comparisons": made}, indent=1, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")
    count = sum(len(c["topologies"]) for c in made)
    print(f"{len(made)} settings, {count} accuracies written to {out}")


if __name__ == "__main__":
    main()
