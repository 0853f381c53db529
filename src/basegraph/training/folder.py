"""The folder of a run: `config.toml`, `metrics.jsonl`, `checkpoint.safetensors`, `provenance.json`.

`metrics.jsonl` has a line per evaluation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from basegraph.data.dataset import Dataset
from basegraph.engines import checkpoint
from basegraph.errors import InvalidArgument
from basegraph.storage.files import leftovers, replacing, writing
from basegraph.storage.inputs import BadFile, parse_json, read_json, read_text
from basegraph.storage.lock import locked
from basegraph.storage.provenance import provenance
from basegraph.training.config import RunConfig

MAX_METRICS_BYTES = 2**28
"""The largest metrics.jsonl that is read: 256 MiB."""
MAX_LINE = 2**16
"""The longest of its lines, in characters."""
FACTS: checkpoint.Schema = {
    "step": checkpoint.integer(0),
    "steps_per_epoch": checkpoint.integer(1),
    "config": checkpoint.TABLE,
    "config.nodes": checkpoint.integer(1),
    "config.epochs": checkpoint.integer(1),
    "fingerprint": checkpoint.TEXT,
    "seconds": checkpoint.number(0),
    "bytes": checkpoint.number(0, required=False),
    "loss_sum": checkpoint.number(),
    "loss_count": checkpoint.integer(0),
}
"""What a run's checkpoint says besides its tensors."""


class RunFolder:
    """The files of a run, to be read; `open_run` gives them to be written."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self.resume = resume
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.provenance = path / "provenance.json"
        self.nodes = path / "nodes"  # what survivors have saved
        self._check()

    def _check(self) -> None:
        """Refuse a folder that has no run to resume, or has one already."""
        path = self.path
        if self.resume and not self.config.is_file():
            raise InvalidArgument("--out", str(path), "holds no run to resume")
        if not self.resume and self.config.exists():
            raise InvalidArgument(
                "--out", str(path), "holds a run already; --resume continues it, or take another"
            )

    def clear_leftovers(self) -> None:
        """Remove what killed writes of the run's files left."""
        for file in (self.config, self.metrics, self.checkpoint, self.provenance):
            for rest in leftovers(file):
                rest.unlink()

    def start(self, config: RunConfig, dataset: Dataset, facts: dict[str, Any]) -> None:
        """Write what is known before the first step."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        self.checkpoint.unlink(missing_ok=True)
        data = f"{dataset.name}: {len(dataset.train)} training, {len(dataset.test)} test samples"
        origin = {**provenance(data), "measured": facts}
        self._write(self.provenance, json.dumps(origin, indent=2) + "\n")
        self._write(self.metrics, "")
        self._write(self.config, config.to_toml())

    def restart(self, config: RunConfig, what: dict[str, Any]) -> None:
        """Go on with another number of nodes; restarts.jsonl remembers."""
        self._append(self.path / "restarts.jsonl", what)
        self._write(self.config, config.to_toml())

    def belongs_to(self, job: str) -> None:
        """Remember which torchrun makes the run: only that one goes on with it unasked."""
        there = _json(self.provenance)
        self._write(self.provenance, json.dumps({**there, "job": job}, indent=2) + "\n")

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The checkpoint of the run that is to be continued, if it has got that far."""
        there = self.resume and self.checkpoint.is_file()
        return checkpoint.load(self.checkpoint, FACTS) if there else None

    def last_good(self) -> str:
        """The checkpoint, to be named as one that a run can go on from; or why there is none."""
        if not self.checkpoint.exists():
            return "none yet"
        try:
            tensors, _ = checkpoint.load(self.checkpoint, FACTS)
            checkpoint.require_tensors(self.checkpoint, tensors, tensors)
        except checkpoint.CheckpointError as error:
            return f"none: {error}"
        return str(self.checkpoint)

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write a checkpoint."""
        checkpoint.save(self.checkpoint, tensors, facts)

    def rows(self) -> list[dict[str, Any]]:
        """What metrics.jsonl holds; a last line that was cut off by a kill is passed over."""
        if not self.metrics.is_file():
            return []
        lines = read_text(self.metrics, MAX_METRICS_BYTES).splitlines()
        found = []
        for number, line in enumerate(lines):
            try:
                found.append(_row(line))
            except ValueError:
                if number < len(lines) - 1:
                    raise BadFile(f"{self.metrics}: line {number + 1} is broken") from None
        return found

    def keep(self, rows: list[dict[str, Any]]) -> None:
        """Make these the rows of metrics.jsonl."""
        self._write(self.metrics, "".join(json.dumps(row) + "\n" for row in rows))

    def append(self, row: dict[str, Any]) -> None:
        """Add a row to metrics.jsonl."""
        self._append(self.metrics, row)

    @staticmethod
    def _append(path: Path, row: dict[str, Any]) -> None:
        with writing(path), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def _write(path: Path, text: str) -> None:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


@contextmanager
def open_run(path: Path, *, resume: bool) -> Iterator[RunFolder]:
    """The folder of a run, made if need be, for this process alone to write to."""
    with locked("--out", path):
        yield RunFolder(path, resume=resume)


def belongs_to(path: Path, job: str) -> bool:
    """Whether this folder holds a run that the same torchrun has begun or resumed."""
    there = _json(path / "provenance.json")
    return (path / "config.toml").is_file() and there.get("job") == job


def _row(line: str) -> dict[str, Any]:
    """A line of metrics.jsonl."""
    row = parse_json(line) if len(line) <= MAX_LINE else None
    if not isinstance(row, dict) or type(row.get("epoch")) is not int:
        raise ValueError("no row of metrics")
    return row


def _json(path: Path) -> dict[str, Any]:
    """What a file holds; nothing where it is gone or broken."""
    try:
        found = read_json(path)
    except (OSError, BadFile):
        return {}
    return found if isinstance(found, dict) else {}
