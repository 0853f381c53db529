"""What is known of a topology before training, beside how it trained: does any of it predict?

    python scripts/predictors.py docs/results --out docs/results/predictors

Every comparison of topologies with momentum SGD under the folder is read: the runs of `basegraph
reproduce pairs` and single runs in `vgg11`, of degree one, and those of `basegraph reproduce
learning`, of one to five neighbors. A topology is scored by its test accuracy at the end less that
of base in the same seed. Kendall's τ then says for each number of `bg.diagnose` whether topologies
with less of it end higher (1: always, -1: never). With so few topologies τ is rough: the column p
has its two-sided p-value, exact, from all orders in which the topologies could have ended. The
column `least p` has the smallest that this number could have had: where many topologies share a
value, no order reaches 0.05.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from itertools import permutations
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kendalltau

import basegraph as bg
from basegraph.experiments.reporting import markdown
from basegraph.experiments.statistics import standard_error
from basegraph.experiments.store import ResultFolder
from basegraph.training.config_files import read_saved

REFERENCE = "base:k=1"
PAIRS = ("pairs-cifar10", "pairs-cifar10-0.02", "pairs-digits")
SINGLE_RUNS = "vgg11"
FIGURES = ("dsgd", "nodes", "equistatic", "sixteen")
"""Of `basegraph reproduce learning`, those with momentum SGD."""
Accuracies = dict[str, dict[int, float]]
"""In percent, by topology and seed."""


class Comparison(NamedTuple):
    """Topologies that were trained alike."""

    nodes: int
    ends: Accuracies


def comparisons(results: Path) -> dict[str, Comparison]:
    """The accuracies at the end of every comparison, by its folder and what it varies."""
    pairs = {name: Comparison(25, _of_pairs(results / name)) for name in PAIRS}
    single = {SINGLE_RUNS: Comparison(25, _of_single_runs(results / SINGLE_RUNS))}
    return {**pairs, **single, **_of_figures(results / "learning")}


def _of_pairs(folder: Path) -> Accuracies:
    ends: Accuracies = defaultdict(dict)
    for row in _rows(folder / "runs.csv"):
        if not row["failure"]:
            ends[row["topology"]][int(row["seed"])] = 100 * float(row["test_accuracy"])
    return ends


def _of_single_runs(folder: Path) -> Accuracies:
    ends: Accuracies = defaultdict(dict)
    for config in sorted(folder.glob("*/config.toml")):
        settings = read_saved(config)
        *_, last = config.with_name("metrics.jsonl").read_text(encoding="utf-8").splitlines()
        accuracy = json.loads(last)["test_accuracy"]
        ends[settings["topology"]][settings["seed"]] = 100 * accuracy
    return ends


def _of_figures(folder: Path) -> dict[str, Comparison]:
    """By figure, α and number of nodes: not all figures were made with one schedule."""
    found: dict[str, Comparison] = {}
    for figure in FIGURES:
        for row in _rows(folder / figure / "runs.csv"):
            chosen = row["in the table"] == "True"
            if chosen and _is_periodic(row["topology"], int(row["n"])):
                name = f"{figure}, α = {float(row['α']):g}, n = {row['n']}"
                ends = found.setdefault(name, Comparison(int(row["n"]), {})).ends
                accuracy = 100 * float(row["test_accuracy"])
                ends.setdefault(row["topology"], {})[int(row["seed"])] = accuracy
    return found


def _is_periodic(spec: str, nodes: int) -> bool:
    return spec != "all-reduce" and bg.topology(spec, n=nodes).period is not None


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def known_of(spec: str, nodes: int) -> dict[str, float]:
    """What is known before training; less is expected to be better, but for neighbors."""
    t = bg.topology(spec, n=nodes)
    diagnostics = bg.diagnose(t)
    left = bg.consensus_error(t, np.arange(float(nodes)), t.period)[-1]
    return {
        "neighbors": t.max_degree,
        "rounds": t.period,
        **{f"D({rho:g})": value for rho, value in diagnostics.training.items()},
        "noise": diagnostics.noise,
        "largest pair weight": float(diagnostics.weights.largest),
        "not exact": float(not left < 1e-20),
    }


COLUMNS = tuple(known_of(REFERENCE, 2))


def scores(name: str, comparison: Comparison) -> list[dict[str, Any]]:
    """A row per topology, the best first."""
    rows = []
    nodes, ends = comparison
    for spec, by_seed in ends.items():
        gains = [
            a - ends[REFERENCE][seed] for seed, a in by_seed.items() if seed in ends[REFERENCE]
        ]
        error = standard_error(gains)
        rows.append(
            {
                "results": name,
                "topology": spec,
                "seeds": len(gains),
                f"above {REFERENCE}": mean(gains),
                "standard error": "–" if error is None else round(error, 2),
                **known_of(spec, nodes),
            }
        )
    return sorted(rows, key=lambda row: -row[f"above {REFERENCE}"])


def exact_p(less: list[float], ends: list[float]) -> tuple[float, float]:
    """The share of all orders of the ends with a τ as far from 0, and the least there is.

    What τ divides by is the same for all orders, so its numerator decides: pairs in the same order
    less pairs in the opposite one.
    """
    orders = np.array(list(permutations(ends)))
    first, second = np.triu_indices(len(ends), k=1)
    signs = np.sign(np.array(less)[first] - np.array(less)[second])
    agreement = np.abs(np.sign(orders[:, first] - orders[:, second]) @ signs)
    return float(np.mean(agreement >= agreement[0])), float(np.mean(agreement == agreement.max()))


def correlations(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kendall's τ between less of a number and a higher accuracy, by comparison."""
    rows = []
    for name in dict.fromkeys(row["results"] for row in table):
        mine = [row for row in table if row["results"] == name]
        for column in COLUMNS:
            less = [-row[column] for row in mine]
            if len(set(less)) > 1:
                ends = [row[f"above {REFERENCE}"] for row in mine]
                p, least = exact_p(less, ends)
                rows.append(
                    {
                        "results": name,
                        "topologies": len(mine),
                        "number": column,
                        "τ": round(float(kendalltau(less, ends).statistic), 2),
                        "p": f"{p:.2g}",
                        "least p": f"{least:.2g}",
                    }
                )
    return rows


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is printed; correlations are those of the numbers before rounding."""
    digits = {f"above {REFERENCE}": 2}
    return {
        name: round(value, digits.get(name, 4)) if isinstance(value, float) else value
        for name, value in row.items()
    }


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    files = ["scores.csv", "correlations.csv", "predictors.md"]
    folder = ResultFolder(arguments.out, files, force=True)
    read = comparisons(arguments.results)
    table = [row for name, comparison in read.items() for row in scores(name, comparison)]
    taus = correlations(table)
    shown = [rounded(row) for row in table]
    folder.table("scores.csv", shown)
    folder.table("correlations.csv", taus)
    text = f"# Numbers before training, and how it ended\n\n{markdown(shown)}\n{markdown(taus)}"
    folder.text("predictors.md", text)
    folder.provenance(", ".join(read))
    print(text)


if __name__ == "__main__":
    main()
