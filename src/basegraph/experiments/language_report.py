"""Tables and curves of the language experiment, from whatever runs are there."""

from __future__ import annotations

import csv
from statistics import mean
from typing import Any, Literal

from basegraph.experiments.language import Experiment, Key
from basegraph.experiments.reporting import markdown
from basegraph.experiments.statistics import listed, rounded, significant, spread, standard_error
from basegraph.plots.learning import draw_learning, title_of
from basegraph.training.metrics import Metrics

REFERENCE = "all-reduce"
BitsPerByte = Literal[
    "test_bits_per_byte", "test_bits_per_byte_averaged", "test_bits_per_byte_worst"
]
SCORES: tuple[BitsPerByte, ...] = (
    "test_bits_per_byte",
    "test_bits_per_byte_averaged",
    "test_bits_per_byte_worst",
)
"""The mean over nodes, of the averaged model, of the worst node."""
TABLES = ("runs.csv", "language.csv", "language.md", "curves.csv", "domains.csv")
HEADROOM = 1.5
"""Curves are drawn up to so many times the best last value: their ends are to be told apart."""


def outputs(splits: list[str]) -> list[str]:
    """The files that are written."""
    return [*TABLES, "missing.txt", *(f"curves-{split}.png" for split in splits)]


def report(experiment: Experiment) -> tuple[list[dict[str, Any]], list[str]]:
    """Write tables and curves of the runs that are there.

    Args:
        experiment: The runs.

    Returns:
        The table, and the names of the runs that are missing.

    """
    folder, known = experiment.folder, experiment.known()
    finished = experiment.finished(known)
    missing = [key.name for key in experiment.left(known)]
    folder.text("missing.txt", "".join(f"{name}\n" for name in missing))
    kept = experiment.chosen(finished)
    folder.table("runs.csv", [_row(experiment, key, finished, key in kept) for key in known])
    if not finished:
        folder.remove_older()
        return [], missing
    table = summary(experiment, finished, kept)
    folder.table("language.csv", table)
    folder.text("language.md", markdown(table))
    folder.table("curves.csv", [row for key, rows in kept.items() for row in _curve(key, rows)])
    folder.table("domains.csv", [row for key in kept for row in _domains(experiment, key)])
    for split in {key.split: None for key in kept}:
        runs = {key: rows for key, rows in kept.items() if key.split == split}
        best = min(rows[-1]["test_bits_per_byte"] for rows in runs.values())
        curves = [{"config": _shown(key), "rows": rows} for key, rows in runs.items()]
        shared = {name: experiment.settings.get(name) for name in ("nodes", "dataset", "model")}
        draw_learning(
            curves,
            [folder.picture(f"curves-{split}.png")],
            highest=HEADROOM * best,
            title=title_of([{**shared, "split": split}]),
        )
    folder.remove_older()
    return table, missing


def summary(
    experiment: Experiment, finished: dict[Key, list[Metrics]], kept: dict[Key, list[Metrics]]
) -> list[dict[str, Any]]:
    """Where the arms ended, the best first in every split.

    Differences are between runs that were tested on equally many windows, the same ones then.
    Learning rates were chosen by the validation windows.
    """
    failed, lost = experiment.sweep.failed(), experiment.diverged_seeds(finished)
    left = {key.name for key in experiment.left(experiment.tried)}
    table = []
    for split, arm in experiment.pairs:
        ended = {k.seed: r[-1] for k, r in kept.items() if (k.split, k.arm) == (split, arm)}
        if not ended:
            continue
        (lr,) = {k.lr for k in kept if (k.split, k.arm) == (split, arm)}
        tried = [k.name for k in experiment.tried if (k.split, k.arm) == (split, arm)]
        compared = [
            rows[-1].get("validation_samples", 0) for k, rows in finished.items() if k.name in tried
        ]
        reference = {
            k.seed: r[-1] for k, r in kept.items() if (k.split, k.arm) == (split, REFERENCE)
        }
        gaps = [
            row["test_bits_per_byte"] - reference[seed]["test_bits_per_byte"]
            for seed, row in ended.items()
            if seed in reference and row["test_samples"] == reference[seed]["test_samples"]
        ]
        tested = [row["test_samples"] for row in ended.values()]
        scores = {name: [row[name] for row in ended.values()] for name in SCORES}
        distance = mean(row["consensus_distance"] for row in ended.values())
        table.append(
            {
                "split": split,
                "method": arm,
                "lr": lr,
                "rates tried": f"{sum(name not in left for name in tried)} of {len(tried)}",
                "rates diverged": sum(name in failed for name in tried),
                "seeds": len(ended),
                "seeds diverged": listed(lost.get((split, arm))),
                "bits/byte": round(mean(scores[SCORES[0]]), 4),
                "±": rounded(spread(scores[SCORES[0]]), 4),
                f"above {REFERENCE}": round(mean(gaps), 4) if gaps else "–",
                "standard error": rounded(standard_error(gaps), 4),
                "averaged model": round(mean(scores[SCORES[1]]), 4),
                "worst node": round(mean(scores[SCORES[2]]), 4),
                "test windows": _distinct(tested),
                "validation windows": _distinct(compared),
                "consensus distance": float(f"{distance:.3g}"),
                "M tokens": significant(mean(row["tokens"] for row in ended.values()) / 1e6),
                "GB per node": significant(mean(r["bytes_per_node"] for r in ended.values()) / 1e9),
            }
        )
    order = [split for split, _ in experiment.pairs]
    return sorted(table, key=lambda row: (order.index(row["split"]), row["bits/byte"]))


def _distinct(counts: list[int]) -> str:
    return ", ".join(map(str, sorted(set(counts))))


def _named(key: Key) -> dict[str, Any]:
    return {"split": key.split, "method": key.arm, "lr": key.lr, "seed": key.seed}


def _row(
    experiment: Experiment, key: Key, finished: dict[Key, list[Metrics]], kept: bool
) -> dict[str, Any]:
    """A run, as far as it has come."""
    columns = ("tokens", "train_loss", "test_loss", *SCORES, "test_samples", "validation_loss",
               "validation_samples", "consensus_distance", "bytes_per_node", "seconds")  # fmt: skip
    last: dict[str, Any] = {**finished[key][-1]} if key in finished else {}
    return {
        **_named(key),
        "in the table": kept,
        "outcome": experiment.outcome(key, key in finished),
        **{column: last.get(column, "") for column in columns},
    }


def _curve(key: Key, rows: list[Metrics]) -> list[dict[str, Any]]:
    """Every evaluation of a run."""
    return [
        {
            **_named(key),
            "tokens": row["tokens"],
            "bytes_per_node": row["bytes_per_node"],
            "train_loss": round(row["train_loss"], 5),
            **{name: round(row[name], 5) for name in SCORES},
            "consensus_distance": float(f"{row['consensus_distance']:.3g}"),
        }
        for row in rows
    ]


def _domains(experiment: Experiment, key: Key) -> list[dict[str, Any]]:
    """What a run came to on the held-out text of every domain."""
    with open(experiment.sweep.path / key.name / "domains.csv", encoding="utf-8") as file:
        return [
            {
                **_named(key),
                "domain": row["domain"],
                **{
                    name: round(float(row[name]), 5)
                    for name in (part.removeprefix("test_") for part in SCORES)
                },
            }
            for row in csv.DictReader(file)
        ]


def _shown(key: Key) -> dict[str, Any]:
    """The configuration as a curve's label tells it."""
    return {"topology": key.arm, "algorithm": f"η = {key.lr:g}"}
