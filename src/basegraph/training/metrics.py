"""`Metrics`: one evaluation of a run, a line of its `metrics.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from basegraph.storage.inputs import BadFile, parse_json, read_text

if TYPE_CHECKING:  # what loads torch: whoever reads metrics does without
    from basegraph.engines.evaluation import Score, Selection

MAX_METRICS_BYTES = 2**28
"""The largest metrics.jsonl that is read: 256 MiB."""
MAX_LINE = 2**16
"""The longest line of a metrics.jsonl, in characters."""


class Metrics(TypedDict):
    """What an evaluation has measured."""

    epoch: int
    step: int
    train_loss: float
    """The mean over nodes and over the steps since the last evaluation."""
    test_accuracy: NotRequired[float]
    """The mean over nodes of each node's own model: what the paper reports."""
    test_accuracy_averaged: NotRequired[float]
    """Of the average of all models."""
    test_accuracy_worst: NotRequired[float]
    """Of the worst node."""
    test_loss: NotRequired[float]
    """In place of the accuracies, where the targets are not classes: of tokens, in nats."""
    test_loss_averaged: NotRequired[float]
    test_loss_worst: NotRequired[float]
    validation_accuracy: NotRequired[float]
    validation_accuracy_averaged: NotRequired[float]
    validation_accuracy_worst: NotRequired[float]
    validation_loss: NotRequired[float]
    validation_loss_averaged: NotRequired[float]
    validation_loss_worst: NotRequired[float]
    test_bits_per_byte: NotRequired[float]
    """Of text, the loss (in nats per token) in bits per byte of the text."""
    test_bits_per_byte_averaged: NotRequired[float]
    test_bits_per_byte_worst: NotRequired[float]
    validation_bits_per_byte: NotRequired[float]
    validation_bits_per_byte_averaged: NotRequired[float]
    validation_bits_per_byte_worst: NotRequired[float]
    tokens: NotRequired[int]
    """Tokens that all nodes together have been trained on, where samples are windows of tokens."""
    evaluated_nodes: int
    """How many nodes were evaluated."""
    test_samples: int
    """How many samples of the test set were used."""
    validation_samples: NotRequired[int]
    consensus_distance: float
    """(1/n) Σ_i |x_i - mean|²."""
    bytes_per_node: float
    """What a node has sent since the start, in the mean over nodes."""
    seconds: float
    """Since the start, without times in which the run was stopped."""


def make_metrics(
    *,
    epoch: int,
    step: int,
    train_loss: float,
    measure: str,
    scores: Mapping[str, Score],
    selection: Selection,
    consensus_distance: float,
    bytes_per_node: float,
    seconds: float,
    tokens: int | None = None,
    bits_per_nat: Mapping[str, float] | None = None,
) -> Metrics:
    """The metrics of an evaluation, in the order in which they are written.

    Args:
        epoch: Epochs made.
        step: Steps made.
        train_loss: The mean loss since the last evaluation.
        measure: `accuracy` or `loss`.
        scores: By set, `test` and perhaps `validation`.
        selection: The nodes and samples that they are of.
        consensus_distance: How far the models are apart.
        bytes_per_node: What a node has sent.
        seconds: How long it took.
        tokens: How many tokens all nodes have been trained on.
        bits_per_nat: Of text, what nats per token are in bits per byte, by set.

    """
    row: dict[str, Any] = {"epoch": epoch, "step": step, "train_loss": train_loss}
    for name, score in scores.items():
        row |= columns(f"{name}_{measure}", score)
    for name, factor in (bits_per_nat or {}).items():
        row |= columns(f"{name}_bits_per_byte", scores[name], factor)
    if tokens is not None:
        row["tokens"] = tokens
    row |= selection.counts()
    row["consensus_distance"] = consensus_distance
    row["bytes_per_node"] = bytes_per_node
    row["seconds"] = round(seconds, 3)
    return cast(Metrics, row)


def columns(name: str, score: Score, factor: float = 1.0) -> dict[str, float]:
    """A score as metrics of this name, in a unit that is so many of its own.

    >>> from basegraph.engines.evaluation import Score
    >>> columns("loss", Score(0.5, 0.25, 1.0), factor=2)
    {'loss': 1.0, 'loss_averaged': 0.5, 'loss_worst': 2.0}
    """
    return {
        name: factor * score.mean,
        f"{name}_averaged": factor * score.averaged,
        f"{name}_worst": factor * score.worst,
    }


def to_json(metrics: Metrics) -> str:
    """The metrics as a line of `metrics.jsonl`."""
    return json.dumps(metrics) + "\n"


def from_json(line: str) -> Metrics:
    """The metrics of a line; those that other versions add are kept.

    Raises:
        ValueError: If it is not a line of metrics.

    """
    row = parse_json(line) if len(line) <= MAX_LINE else None
    if not isinstance(row, dict) or type(row.get("epoch")) is not int:
        raise ValueError("not a line of metrics")
    return cast(Metrics, row)


def read_rows(path: Path) -> list[Metrics]:
    """What a metrics.jsonl holds; a last line that was cut off by a kill is passed over.

    Raises:
        BadFile: If another line is broken.

    """
    if not path.is_file():
        return []
    lines = read_text(path, MAX_METRICS_BYTES).splitlines()
    rows = []
    for number, line in enumerate(lines):
        try:
            rows.append(from_json(line))
        except ValueError:
            if number < len(lines) - 1:
                raise BadFile(f"{path}: line {number + 1} is broken") from None
    return rows
