"""Folders of runs that have not been trained: what commands read."""

from __future__ import annotations

import json

from basegraph.training.config import RunConfig
from basegraph.training.standing import change_of_nodes

CHANGES = [
    change_of_nodes(["a", "b", "c"], ["a", "b"], 9, 1.5),
    change_of_nodes(["a", "b"], ["a", "b", "d"], 12, 2.0),
]
"""Of the nodes of a run: c has left, then d has joined."""


def row(epoch: int, measure: str = "accuracy") -> dict[str, float]:
    scores = {f"test_{measure}{whose}": 0.5 + epoch / 100 for whose in ("", "_averaged", "_worst")}
    spent = {"consensus_distance": 10.0**-epoch, "bytes_per_node": 2e6 * epoch}
    return {"epoch": epoch, "step": 6 * epoch, "train_loss": 1 / epoch, **scores, **spent} | {
        "seconds": 2.0 * epoch
    }


def rows_of(epochs: int, measure: str = "accuracy") -> str:
    return "".join(json.dumps(row(epoch, measure)) + "\n" for epoch in range(1, epochs + 1))


def write_run(folder, epochs, *, of=4, measure="accuracy", changes=(), job="", **fields):
    """A run's folder as it stands after some evaluations, without having trained."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text(rows_of(epochs, measure))
    (folder / "restarts.jsonl").write_text("".join(json.dumps(c) + "\n" for c in changes))
    (folder / "provenance.json").write_text(json.dumps({"job": job} if job else {}))
    (folder / "config.toml").write_text(RunConfig(epochs=of, **fields).to_toml())
    return folder
