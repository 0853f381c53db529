"""What happens along the runs of a comparison of topologies, beside how they end.

    python scripts/along_runs.py docs/results/vgg11 --out docs/results/along

The folder has a run per topology and seed, all with the same epochs, such as `basegraph train`
makes. Numbers are means over the seeds; differences from base are within seeds, with their standard
error. The consensus distance is also divided by η², which it would be proportional to if the
gradients' differences between nodes stayed the same.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from basegraph.cli.compare import find_runs
from basegraph.experiments.reporting import markdown
from basegraph.experiments.statistics import standard_error
from basegraph.experiments.store import ResultFolder
from basegraph.plots.canvas import panels, save
from basegraph.plots.colors import looks
from basegraph.training.schedule import learning_rate

REFERENCE = "base:k=1"
SHOWN = (25, 50, 100, 150, 200, 250, 300, 400, 450, 500)
"""Epochs of the printed table; along.csv has all."""
LAST = 1e-6
"""A learning rate up to which there is nothing left of it: at the last step the nodes are one."""
ACCURACIES = {"nodes": "test_accuracy", "averaged model": "test_accuracy_averaged"}
Rows = dict[int, dict[str, float]]
"""The evaluations of a run by epoch."""


def read(folder: Path) -> tuple[dict[str, dict[int, Rows]], dict[int, float]]:
    """The evaluations by topology and seed, and the learning rate at each of their epochs."""
    runs: dict[str, dict[int, Rows]] = defaultdict(dict)
    rates: dict[int, float] = {}
    for run in find_runs([folder]):
        config = run["config"]
        runs[config["topology"]][int(config["seed"])] = {row["epoch"]: row for row in run["rows"]}
        for row in run["rows"]:
            rates[row["epoch"]] = learning_rate(
                row["step"] - 1,
                row["step"] // row["epoch"],
                config["epochs"],
                peak=config["lr"],
                warmup=config["warmup"],
                schedule=config["schedule"],
                lowest=config.get("lr_min", 0.0),
                warmup_start=config.get("warmup_start", 0.0),
                changes=config.get("lr_changes", "step"),
                cosine_epochs=config.get("cosine_epochs", 0),
            )
    return dict(runs), rates


def table(runs: dict[str, dict[int, Rows]], rates: dict[int, float]) -> list[dict[str, Any]]:
    """A row per topology and epoch."""
    rows = []
    for topology, seeds in runs.items():
        for epoch, rate in rates.items():
            here = [seeds[seed][epoch] for seed in seeds]
            distance = mean(row["consensus_distance"] for row in here)
            line: dict[str, Any] = {
                "topology": topology,
                "epoch": epoch,
                "η": float(f"{rate:.3g}"),
                "seeds": len(here),
                "train loss": round(mean(row["train_loss"] for row in here), 3),
                "consensus distance": float(f"{distance:.3g}"),
                "distance / η²": float(f"{distance / rate**2:.3g}") if rate > LAST else "–",
            }
            for name, key in ACCURACIES.items():
                gains = [
                    100 * (seeds[seed][epoch][key] - runs[REFERENCE][seed][epoch][key])
                    for seed in seeds
                ]
                error = standard_error(gains)
                line[f"{name} %"] = round(100 * mean(row[key] for row in here), 2)
                line[f"{name} above base"] = round(mean(gains), 2)
                line[f"± {name}"] = "–" if error is None else round(error, 2)
            rows.append(line)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Four panels against epochs."""
    styles = looks(dict.fromkeys(row["topology"] for row in rows))
    figure, axes = panels(2, 2, width=4.2, height=2.8)
    shown = (
        ("train loss", "training loss", True),
        ("consensus distance", "consensus distance", True),
        ("nodes above base", "nodes: test accuracy above base, points", False),
        ("averaged model above base", "averaged model: the same", False),
    )
    for axis, (column, title, logarithmic) in zip(axes, shown, strict=True):
        for topology, style in styles.items():
            line = [row for row in rows if row["topology"] == topology]
            if logarithmic:
                line = [row for row in line if row["η"] > LAST]
            axis.plot(
                [row["epoch"] for row in line],
                [row[column] for row in line],
                color=style.color,
                linestyle=style.linestyle,
                label=topology,
            )
        if logarithmic:
            axis.set_yscale("log")
        axis.set_title(title)
        axis.set_xlabel("epochs")
    axes[0].legend()
    save(figure, path)


def main() -> None:
    """Write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    folder = ResultFolder(arguments.out, ["along.csv", "along.md", "along.png"], force=True)
    rows = table(*read(arguments.runs))
    folder.table("along.csv", rows)
    printed = [row for row in rows if row["epoch"] in SHOWN]
    text = f"# Along the runs of {arguments.runs.name}\n\n{markdown(printed)}"
    folder.text("along.md", text)
    draw(rows, folder / "along.png")
    folder.provenance(str(arguments.runs))
    print(text)


if __name__ == "__main__":
    main()
