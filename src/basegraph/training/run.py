"""A run: the loop around an engine, its folder, and how it stops and continues.

The folder: `config.toml`, `metrics.jsonl` (a line per evaluation), `checkpoint.safetensors`,
`provenance.json`. A run that is stopped at any step continues as if it had not been.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

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

    `dataset` and `module` may be given instead of the configuration's names: any module without
    buffers that change in training will do.
    """
    watcher = watcher or Watcher()
    folder = RunFolder(out, resume=resume)
    if dataset is None:
        dataset = load(config.dataset, Path(config.data_dir) if config.data_dir else None)
    if module is None:
        module = build(config.model, dataset.shape, dataset.classes, config.seed)
    engine = StackedEngine(config, dataset, module)
    loop = _Loop(config, engine, folder, watcher)
    if resume:
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
            if not self.checkpoint.is_file():
                raise InvalidArgument("--out", str(path), "has no checkpoint to resume from")
            return
        if self.config.exists():
            raise InvalidArgument(
                "--out", str(path), "holds a run already; --resume continues it, or take another"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidArgument("--out", str(path), f"cannot be made: {reason}") from None
        writable("--out", self.metrics, force=True)

    def start(self, config: RunConfig, dataset: Dataset, facts: dict[str, Any]) -> None:
        """Write what is known before the first step."""
        data = f"{dataset.name}: {len(dataset.train)} training, {len(dataset.test)} test samples"
        origin = {**provenance(data), "measured": facts}
        self._write(self.provenance, json.dumps(origin, indent=2) + "\n")
        self._write(self.metrics, "")
        self._write(self.config, config.to_toml())

    def rows(self) -> list[dict[str, Any]]:
        """What metrics.jsonl holds."""
        return [json.loads(line) for line in self.metrics.read_text().splitlines()]

    def keep(self, rows: list[dict[str, Any]]) -> None:
        """Make these the rows of metrics.jsonl."""
        self._write(self.metrics, "".join(json.dumps(row) + "\n" for row in rows))

    def append(self, row: dict[str, Any]) -> None:
        """Add a row to metrics.jsonl."""
        with open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

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
        self.rows: list[dict[str, Any]] = []
        self.evaluate_every = config.evaluate_every or max(1, config.epochs // 20)
        self.checkpoint_every = config.checkpoint_every or self.evaluate_every

    def resume(self) -> None:
        """Continue from the folder's checkpoint, with the metrics that it knew of."""
        tensors, facts = checkpoint.load(self.folder.checkpoint)
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
            if not within and (epoch % self.evaluate_every == 0 or engine.step == total):
                self._evaluate(epoch)
            if not within and (epoch % self.checkpoint_every == 0 or engine.step == total):
                self.save()
            if told:
                self.save()
                raise Interrupted(
                    f"stopped by {signal.Signals(told[0]).name} after step {engine.step} of "
                    f"{total}; checkpoint in {self.folder.path}, --resume continues",
                    128 + told[0],
                )
        return self.rows

    def _step(self) -> float:
        losses = self.engine.advance()
        if not torch.isfinite(losses).all():
            node = int(torch.argmin(torch.isfinite(losses).int()))
            kept = self.folder.checkpoint
            raise Diverged(
                f"the loss of node {node} is {float(losses[node])} at step "
                f"{self.engine.step - 1}; last good checkpoint: "
                f"{kept if kept.exists() else 'none yet'}. A smaller --lr may help"
            )
        loss = float(losses.mean())
        self.loss_sum += loss
        self.loss_count += 1
        return loss

    def _evaluate(self, epoch: int) -> None:
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
        self.watcher.evaluated(row)

    def save(self) -> None:
        """Write a checkpoint of the last completed step."""
        facts = {
            "step": self.engine.step,
            "config": self.config.computes(),
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
