"""The folder of a run: `config.toml`, `metrics.jsonl`, `checkpoint.safetensors`, `provenance.json`.

`metrics.jsonl` has a line per evaluation, `restarts.jsonl` one per change of the nodes. A run on
text has `domains.csv` too: what the last evaluation found on the held-out part of every file.
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
from basegraph.errors import InvalidArgument, PeerLost
from basegraph.storage._provenance import provenance
from basegraph.storage.files import CannotWrite, leftovers, replacing, writing
from basegraph.storage.inputs import parse_json, read_json_table, read_text
from basegraph.storage.lock import Lock, locked
from basegraph.training.config import DEFAULTS, RunConfig
from basegraph.training.config_files import read_saved
from basegraph.training.metrics import MAX_METRICS_BYTES, Metrics, read_rows, to_json
from basegraph.training.problem import Facts
from basegraph.training.status import FINISHED, read_status

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
    "ties": checkpoint.TABLE._replace(required=False),
}
"""What a run's checkpoint says besides its tensors."""


class RunFolder:
    """The files of a run; to write them, open the folder with `open_run`.

    Args:
        path: The folder.
        resume: Whether there is a run in it that is to be read or continued.
        writes: Whether anything is written here; with one node per process, node 0 does that.
        argument: What the caller calls the folder; refusals name it.
        lock: The lock on it, where another node of the same job may take that: from then on,
            writing raises `PeerLost`.

    Raises:
        InvalidArgument: If it holds no run to resume, or holds one that is not resumed.

    """

    def __init__(
        self,
        path: Path,
        *,
        resume: bool,
        writes: bool = True,
        argument: str = "out",
        lock: Lock | None = None,
    ) -> None:
        self.path = path
        self.resume = resume
        self.writes = writes
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.provenance = path / "provenance.json"
        self.changes = path / "restarts.jsonl"
        self.nodes = path / "nodes"  # what survivors have saved
        self._lock = lock
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

    def start(self, config: RunConfig, dataset: Dataset, facts: Facts, job: str = "") -> None:
        """Write what is known before the first step, and which job makes the run."""
        data = f"{dataset.name}: {len(dataset.train)} training, {len(dataset.test)} test samples"
        origin = {
            **provenance(data),
            "data_checksum": dataset.checksum,
            "measured": facts,
            **({"job": job} if job else {}),
        }
        self._write(self.provenance, json.dumps(origin, indent=2) + "\n")
        self._remove(self.checkpoint)
        self._write(self.metrics, "")
        self._write(self.config, config.to_toml())

    @property
    def taken(self) -> bool:
        """Whether another node has taken over: this process writes nothing any more."""
        return self._lock is not None and not self._lock.held

    def record(self, *changes: dict[str, Any]) -> None:
        """Add changes of the nodes to restarts.jsonl, except those that it has already."""
        if not self.writes or not changes:
            return
        text = read_text(self.changes, MAX_METRICS_BYTES) if self.changes.is_file() else ""
        known = [_number(line) for line in text.splitlines()]
        fresh = [c for c in changes if _number(json.dumps(c)) not in known]
        cut_off = "\n" if text and not text.endswith("\n") else ""
        if fresh:
            self._append(self.changes, cut_off + "".join(json.dumps(c) + "\n" for c in fresh))

    def configure(self, config: RunConfig) -> None:
        """Write the configuration, in which the number of nodes may be another now."""
        self._write(self.config, config.to_toml())

    def belongs_to(self, job: str) -> None:
        """Remember which job makes the run: only that one goes on with it unasked."""
        origin = read_json_table(self.provenance)
        self._write(self.provenance, json.dumps({**origin, "job": job}, indent=2) + "\n")

    def results(self) -> list[Metrics]:
        """The rows of a run that has ended and kept no checkpoint; empty for any other.

        Such a run is done: to train it again would lose what it came to.
        """
        if not self.config.is_file() or self.checkpoint.is_file():
            return []
        status = read_status(self.path)
        return status.rows if status.state == FINISHED else []

    def data_checksum(self) -> str:
        """Of the data that the run was made with; empty if an earlier version made it."""
        return str(read_json_table(self.provenance).get("data_checksum", ""))

    def require_same_data(self, dataset: Dataset) -> None:
        """Refuse data that the run was not made with.

        Raises:
            InvalidArgument: Its checksum is another.

        """
        if self.data_checksum() not in ("", dataset.checksum):
            raise InvalidArgument(
                "dataset", dataset.name, f"is not what {self.path} was made with: data have changed"
            )

    def settings(self) -> dict[str, Any]:
        """The fields of the run's config.toml, with what missing ones meant."""
        return {**DEFAULTS, **read_saved(self.config)}

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
            with self._unless_taken():
                checkpoint.save(self.checkpoint, tensors, facts, self._require_lock)

    def remove_checkpoint(self) -> None:
        """Remove the checkpoint of a run that has ended and needs none."""
        self._require_lock()
        self._remove(self.checkpoint)

    def rows(self) -> list[Metrics]:
        """What metrics.jsonl holds; a last line that was cut off by a kill is passed over.

        Raises:
            BadFile: If another line is broken.

        """
        return read_rows(self.metrics)

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
        self._require_lock()
        with writing(path), open(path, "a", encoding="utf-8") as file:
            self._require_lock()  # whoever takes over replaces the file that is open here
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _write(self, path: Path, text: str) -> None:
        if not self.writes:
            return
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with self._unless_taken(), replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
            self._require_lock()

    def _require_lock(self) -> None:
        if self.taken:
            raise PeerLost(f"{self.path}: another node has taken over since this one was stopped")

    @contextmanager
    def _unless_taken(self) -> Iterator[None]:
        """Tell a write that fails because whoever took over has removed the temporary file."""
        try:
            yield
        except CannotWrite:
            self._require_lock()
            raise

    def _remove(self, *paths: Path) -> None:
        if self.writes:
            for path in paths:
                path.unlink(missing_ok=True)


@contextmanager
def open_run(path: Path, *, resume: bool, job: str = "") -> Iterator[RunFolder]:
    """Open the folder of a run for this process alone to write to; it is made if need be.

    Args:
        path: The folder.
        resume: Whether the run in it is to be continued.
        job: The job whose nodes take the folder from each other; without one none does.

    Raises:
        InvalidArgument: If another process uses the folder, or it does not hold what it should.

    """
    with locked("out", path, job) as lock:
        yield RunFolder(path, resume=resume, lock=lock if job else None)


def belongs_to(path: Path, job: str) -> bool:
    """Whether this folder holds a run that the same job has begun or resumed."""
    origin = read_json_table(path / "provenance.json")
    return (path / "config.toml").is_file() and origin.get("job") == job


def _number(line: str) -> object:
    """What identifies a line of restarts.jsonl: its number and nodes, or all of it."""
    try:
        change = parse_json(line)
    except ValueError:  # a last line that was cut off by a kill
        return line
    numbered = isinstance(change, dict) and "change" in change
    return (change["change"], change.get("members")) if numbered else line
