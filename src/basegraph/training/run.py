"""A run: the loop around an engine, its folder, and how it stops and continues.

The folder: `config.toml`, `metrics.jsonl` (a line per evaluation), `checkpoint.safetensors`,
`provenance.json`. A run that is stopped at any step continues as if it had not been.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from basegraph.data.catalog import load
from basegraph.data.dataset import Dataset
from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.files import replacing, writable
from basegraph.models.networks import build
from basegraph.provenance import provenance
from basegraph.training import checkpoint
from basegraph.training.config import RunConfig
from basegraph.training.engine import StackedEngine
from basegraph.training.evaluate import consensus_distance

PENDING = 50
"""Steps whose losses a GPU may keep to itself."""


class Diverged(BasegraphError):
    """A loss became infinite or no number."""

    exit_code = 1


class Interrupted(BasegraphError):
    """The run was told to stop, and has written a checkpoint."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


@dataclass(frozen=True)
class Watcher:
    """What the loop tells whoever watches: at the start, after a step, after an evaluation."""

    stepped: Callable[[int, int, float], None] = lambda step, total, loss: None
    evaluated: Callable[[dict[str, Any]], None] = lambda row: None
    started: Callable[[dict[str, Any]], None] = lambda facts: None


def train(
    config: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    watcher: Watcher | None = None,
    dataset: Dataset | None = None,
    module: nn.Module | None = None,
) -> list[dict[str, Any]]:
    """Run or resume a run in its folder; returns the rows of metrics.jsonl.

    `dataset` and `module` may be given instead of the configuration's names: any module will do
    that is a function of its parameters and samples alone. A run that was stopped before its first
    checkpoint resumes from the start.
    """
    watcher = watcher or Watcher()
    folder = RunFolder(Path(out), resume=resume)
    if dataset is None:
        dataset = load(config.dataset, Path(config.data_dir) if config.data_dir else None)
    if module is None:
        module = build(config.model, dataset.shape, dataset.classes, config.seed)
    engine = StackedEngine(config, dataset, module)
    loop = _Loop(config, engine, folder, watcher)
    folder.clear_leftovers()
    if resume and folder.checkpoint.is_file():
        loop.resume()
    else:
        folder.start(config, dataset, engine.facts())
    watcher.started(engine.facts())
    with _told_to_stop() as told:
        return loop.run(told)


class RunFolder:
    """The files of a run."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.provenance = path / "provenance.json"
        if resume:
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
        self.path.mkdir(parents=True, exist_ok=True)
        self.checkpoint.unlink(missing_ok=True)
        data = f"{dataset.name}: {len(dataset.train)} training, {len(dataset.test)} test samples"
        origin = {**provenance(data), "measured": facts}
        self._write(self.provenance, json.dumps(origin, indent=2) + "\n")
        self._write(self.metrics, "")
        self._write(self.config, config.to_toml())

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
        with open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def _write(path: Path, text: str) -> None:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


class _Loop:
    def __init__(
        self, config: RunConfig, engine: StackedEngine, folder: RunFolder, watcher: Watcher
    ) -> None:
        self.config = config
        self.engine = engine
        self.folder = folder
        self.watcher = watcher
        self.seconds = 0.0
        self.loss_sum, self.loss_count = 0.0, 0
        self.pending: list[Tensor] = []
        self.last_loss = math.nan
        self.rows: list[dict[str, Any]] = []
        self.evaluate_every = config.evaluate_every or max(1, config.epochs // 20)
        self.checkpoint_every = config.checkpoint_every or self.evaluate_every

    def resume(self) -> None:
        """Continue from the folder's checkpoint, with the metrics that it knew of."""
        tensors, facts = checkpoint.load(self.folder.checkpoint)
        if facts["fingerprint"] != self.engine.fingerprint:
            raise InvalidArgument("--out", str(self.folder.path), "was run on other data or models")
        for name, value in self.config.computes().items():
            there = facts["config"].get(name)
            if there != value:
                raise InvalidArgument(name, value, f"the checkpoint's run has {there!r}")
        self.engine.restore(tensors, facts["step"])
        self.seconds = facts["seconds"]
        self.loss_sum, self.loss_count = facts["loss_sum"], facts["loss_count"]
        self.rows = [row for row in self.folder.rows() if row["step"] <= facts["step"]]
        self.folder.keep(self.rows)

    def run(self, told: list[int]) -> list[dict[str, Any]]:
        """Step to the end, evaluating and saving on the way."""
        engine, total = self.engine, self.engine.total_steps
        began = time.perf_counter() - self.seconds
        while engine.step < total:
            loss = self._step()
            self.seconds = time.perf_counter() - began
            self.watcher.stepped(engine.step, total, loss)
            epoch, within = divmod(engine.step, engine.steps_per_epoch)
            row = None
            if not within and (epoch % self.evaluate_every == 0 or engine.step == total):
                row = self._evaluate(epoch)
            if not within and (epoch % self.checkpoint_every == 0 or engine.step == total):
                self.save()
            if row is not None:
                self.watcher.evaluated(row)
            if told:
                self.save()
                raise Interrupted(
                    f"stopped by {signal.Signals(told[0]).name} after step {engine.step} of "
                    f"{total}; checkpoint in {self.folder.path}, --resume continues",
                    128 + told[0],
                )
        return self.rows

    def _step(self) -> float:
        """Make a step; a GPU is asked for its losses only now and then, so as not to wait."""
        self.pending.append(self.engine.advance())
        if self.engine.device.type == "cpu" or len(self.pending) >= PENDING:
            self._settle()
        return self.last_loss

    def _settle(self) -> None:
        """Look at the losses that have come in: they must be numbers, and they are summed."""
        if not self.pending:
            return
        losses = torch.stack(self.pending).cpu()
        self.pending.clear()
        good = torch.isfinite(losses)
        if not good.all():
            step, node = (int(i) for i in torch.nonzero(~good)[0])
            what = f"the loss of node {node} is {float(losses[step, node])}"
            raise self._diverged(what, self.engine.step - len(losses) + step)
        for loss in losses.mean(dim=1).tolist():
            self.loss_sum += loss
            self.last_loss = loss
        self.loss_count += len(losses)

    def _refuse_infinite(self) -> None:
        """Neither evaluate nor keep models that are no longer numbers."""
        for name, tensor in self.engine.tensors().items():
            good = torch.isfinite(tensor).all(dim=1)
            if not good.all():
                node = int(torch.argmin(good.int()))
                raise self._diverged(f"{name} of node {node} is not finite", self.engine.step - 1)

    def _diverged(self, what: str, step: int) -> Diverged:
        kept = self.folder.checkpoint
        return Diverged(
            f"{what} at step {step}; last good checkpoint: "
            f"{kept if kept.exists() else 'none yet'}. A smaller --lr may help"
        )

    def _evaluate(self, epoch: int) -> dict[str, Any]:
        self._settle()
        self._refuse_infinite()
        engine = self.engine
        row: dict[str, Any] = {
            "epoch": epoch,
            "step": engine.step,
            "train_loss": self.loss_sum / self.loss_count if self.loss_count else math.nan,
        }
        for name, found in engine.evaluate().items():
            row[f"{name}_accuracy"] = found.mean
            row[f"{name}_accuracy_averaged"] = found.averaged
            row[f"{name}_accuracy_worst"] = found.worst
        row["consensus_distance"] = consensus_distance(engine.x_nd)
        row["bytes_per_node"] = engine.bytes_sent()
        row["seconds"] = round(self.seconds, 3)
        self.loss_sum, self.loss_count = 0.0, 0
        self.rows.append(row)
        self.folder.append(row)
        return row

    def save(self) -> None:
        """Write a checkpoint of the last completed step."""
        self._settle()
        self._refuse_infinite()
        facts = {
            "step": self.engine.step,
            "config": self.config.computes(),
            "fingerprint": self.engine.fingerprint,
            "seconds": self.seconds,
            "loss_sum": self.loss_sum,
            "loss_count": self.loss_count,
        }
        checkpoint.save(self.folder.checkpoint, self.engine.tensors(), facts)


@contextmanager
def _told_to_stop() -> Iterator[list[int]]:
    """Signals that ask to stop, collected instead of obeyed at once; a second one is obeyed."""
    told: list[int] = []
    before: dict[int, Any] = {}

    def note(number: int, frame: object) -> None:
        told.append(number)
        signal.signal(number, before[number])

    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        try:
            before[number] = signal.signal(number, note)
        except ValueError:  # not in the main thread: whoever runs us handles signals
            break
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
