"""The folder of a run: `config.toml`, `metrics.jsonl`, `checkpoint.safetensors`, `provenance.json`.

`metrics.jsonl` has a line per evaluation. A run on text has `domains.csv` too: what the last
evaluation found on the held-out part of every file.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from basegraph.data.dataset import Dataset
from basegraph.engines import checkpoint
from basegraph.engines.checkpoint import Checkpoint
from basegraph.errors import InvalidArgument
from basegraph.storage._provenance import provenance
from basegraph.storage.files import leftovers, replacing, writing
from basegraph.storage.inputs import BadFile, read_json, read_text
from basegraph.storage.lock import locked
from basegraph.training.config import RunConfig
from basegraph.training.metrics import Metrics, from_json, to_json
from basegraph.training.problem import Facts

MAX_METRICS_BYTES = 2**28
"""The largest metrics.jsonl that is read: 256 MiB."""
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
    "parameters": checkpoint.TABLE._replace(required=False),
}
"""What a run's checkpoint says besides its tensors."""


class RunFolder:
    """The files of a run; to write them, open the folder with `open_run`.

    Args:
        path: The folder.
        resume: Whether there is a run in it that is to be read or continued.
        writes: Whether anything is written here; with one node per process, node 0 does that.
        argument: What the caller calls the folder; refusals name it.

    Raises:
        InvalidArgument: If it holds no run to resume, or holds one that is not resumed.

    """

    def __init__(
        self, path: Path, *, resume: bool, writes: bool = True, argument: str = "out"
    ) -> None:
        self.path = path
        self.resume = resume
        self.writes = writes
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.provenance = path / "provenance.json"
        self.nodes = path / "nodes"  # what survivors have saved
        if writes and resume and not self.config.is_file():
            missing = (
                "holds no run to resume" if argument == "out" else "is not the folder of a run"
            )
            raise InvalidArgument(argument, str(path), missing)
        if writes and not resume and self.config.exists():
            raise InvalidArgument(
                "out", str(path), "holds a run already: resume it, or choose another folder"
            )

    def clear_leftovers(self) -> None:
        """Remove what killed writes of the run's files left."""
        for file in (self.config, self.metrics, self.checkpoint, self.provenance):
            self._remove(*leftovers(file))

    def start(self, config: RunConfig, dataset: Dataset, facts: Facts) -> None:
        """Write what is known before the first step."""
        data = f"{dataset.name}: {len(dataset.train)} training, {len(dataset.test)} test samples"
        origin = {**provenance(data), "measured": facts}
        self._write(self.provenance, json.dumps(origin, indent=2) + "\n")
        self._remove(self.checkpoint)
        self._write(self.metrics, "")
        self._write(self.config, config.to_toml())

    def restart(self, config: RunConfig, what: dict[str, Any]) -> None:
        """Go on with another number of nodes; restarts.jsonl remembers."""
        self._append(self.path / "restarts.jsonl", json.dumps(what) + "\n")
        self._write(self.config, config.to_toml())

    def belongs_to(self, job: str) -> None:
        """Remember which torchrun makes the run: only that one goes on with it unasked."""
        origin = _json(self.provenance)
        self._write(self.provenance, json.dumps({**origin, "job": job}, indent=2) + "\n")

    def load(self) -> Checkpoint | None:
        """The checkpoint of the run that is to be continued, if it has got that far."""
        exists = self.resume and self.checkpoint.is_file()
        return checkpoint.load(self.checkpoint, FACTS) if exists else None

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
        if self.writes:
            checkpoint.save(self.checkpoint, tensors, facts)

    def rows(self) -> list[Metrics]:
        """What metrics.jsonl holds; a last line that was cut off by a kill is passed over.

        Raises:
            BadFile: If another line is broken.

        """
        if not self.metrics.is_file():
            return []
        lines = read_text(self.metrics, MAX_METRICS_BYTES).splitlines()
        rows = []
        for number, line in enumerate(lines):
            try:
                rows.append(from_json(line))
            except ValueError:
                if number < len(lines) - 1:
                    raise BadFile(f"{self.metrics}: line {number + 1} is broken") from None
        return rows

    def keep(self, rows: list[Metrics]) -> None:
        """Make these the rows of metrics.jsonl."""
        self._write(self.metrics, "".join(to_json(row) for row in rows))

    def append(self, row: Metrics) -> None:
        """Add a row to metrics.jsonl."""
        self._append(self.metrics, to_json(row))

    def write_domains(self, rows: list[dict[str, Any]]) -> None:
        """Write a row per domain of a text as `domains.csv`."""
        table = io.StringIO()
        writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self._write(self.path / "domains.csv", table.getvalue())

    def _append(self, path: Path, line: str) -> None:
        if not self.writes:
            return
        with writing(path), open(path, "a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _write(self, path: Path, text: str) -> None:
        if not self.writes:
            return
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def _remove(self, *paths: Path) -> None:
        if self.writes:
            for path in paths:
                path.unlink(missing_ok=True)


@contextmanager
def open_run(path: Path, *, resume: bool) -> Iterator[RunFolder]:
    """Open the folder of a run for this process alone to write to; it is made if need be.

    Args:
        path: The folder.
        resume: Whether the run in it is to be continued.

    Raises:
        InvalidArgument: If another process uses the folder, or it does not hold what it should.

    """
    with locked("out", path):
        yield RunFolder(path, resume=resume)


def belongs_to(path: Path, job: str) -> bool:
    """Whether this folder holds a run that the same torchrun has begun or resumed."""
    origin = _json(path / "provenance.json")
    return (path / "config.toml").is_file() and origin.get("job") == job


def _json(path: Path) -> dict[str, Any]:
    """What a file holds; nothing where it is gone or broken."""
    try:
        value = read_json(path)
    except (OSError, BadFile):
        return {}
    return value if isinstance(value, dict) else {}
