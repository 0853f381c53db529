"""The folder of a run: `config.toml`, `metrics.jsonl`, `checkpoint.safetensors`, `provenance.json`.

`metrics.jsonl` has a line per evaluation.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from torch import Tensor

from basegraph import checkpoint
from basegraph.data.dataset import Dataset
from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.files import replacing, writable, writing
from basegraph.provenance import provenance
from basegraph.training.config import RunConfig


class RunFolder:
    """The files of a run."""

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
        """Refuse a folder that has no run to resume, has one already, or cannot be written to."""
        path = self.path
        if self.resume:
            if not self.config.is_file():
                raise InvalidArgument("--out", str(path), "holds no run to resume")
            return
        if self.config.exists():
            raise InvalidArgument(
                "--out", str(path), "holds a run already; --resume continues it, or take another"
            )
        there = path
        while not there.exists():
            there = there.parent
        if not there.is_dir():
            raise InvalidArgument("--out", str(path), f"{str(there)!r} is not a folder")
        writable("--out", there / ".basegraph", force=True)

    def clear_leftovers(self) -> None:
        """Remove what a killed write of a checkpoint left; no other run may be writing here."""
        for rest in self.path.glob(".*checkpoint*"):
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
        return checkpoint.load(self.checkpoint) if there else None

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write a checkpoint."""
        checkpoint.save(self.checkpoint, tensors, facts)

    def rows(self) -> list[dict[str, Any]]:
        """What metrics.jsonl holds; a last line that was cut off by a kill is passed over."""
        if not self.metrics.is_file():
            return []
        lines = self.metrics.read_text(encoding="utf-8").splitlines()
        found = []
        for number, line in enumerate(lines):
            try:
                found.append(json.loads(line))
            except ValueError:
                if number < len(lines) - 1:
                    raise BasegraphError(f"{self.metrics}: line {number + 1} is broken") from None
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


def belongs_to(path: Path, job: str) -> bool:
    """Whether this folder holds a run that the same torchrun has begun or resumed."""
    there = _json(path / "provenance.json")
    return (path / "config.toml").is_file() and there.get("job") == job


def _json(path: Path) -> dict[str, Any]:
    """What a file holds; nothing where it is gone or broken."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
