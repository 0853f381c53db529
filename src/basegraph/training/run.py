"""Runs: the loop around an engine, and how runs stop and continue.

Several runs may share an engine, each with its own folder, as if it ran alone. A run that is
stopped at any step continues as if it had not been.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from basegraph.data.catalog import load
from basegraph.data.dataset import Dataset
from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.models.networks import build
from basegraph.training import checkpoint
from basegraph.training.config import RunConfig
from basegraph.training.engine import StackedEngine, pick_device
from basegraph.training.evaluate import consensus_distance
from basegraph.training.folder import RunFolder
from basegraph.training.memory import NotEnoughMemory, fit
from basegraph.training.replica import Replica

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


Rows = list[dict[str, Any]]
"""The lines of metrics.jsonl."""


@dataclass(frozen=True)
class Watcher:
    """What the loop tells whoever watches: at the start, after a step, after an evaluation."""

    stepped: Callable[[int, int, float], None] = lambda step, total, loss: None
    evaluated: Callable[[dict[str, Any]], None] = lambda row: None
    started: Callable[[dict[str, Any]], None] = lambda facts: None
    failed: Callable[[Diverged], None] = lambda error: None


@dataclass(frozen=True)
class Job:
    """A run to be made, or to be continued if `resume`."""

    config: RunConfig
    out: Path
    resume: bool = False
    watcher: Watcher = field(default_factory=Watcher)


def train(
    config: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    watcher: Watcher | None = None,
    dataset: Dataset | None = None,
    module: nn.Module | None = None,
) -> Rows:
    """Run or resume a run in its folder; returns the rows of metrics.jsonl.

    `dataset` and `module` may be given instead of the configuration's names: any module will do
    that is a function of its parameters and samples alone. A run that was stopped before its first
    checkpoint resumes from the start.
    """
    job = Job(config, Path(out), resume, watcher or Watcher())
    (found,) = train_together([job], dataset=dataset, module=module)
    if isinstance(found, Diverged):
        raise found
    return found


def train_together(
    jobs: Sequence[Job], *, dataset: Dataset | None = None, module: nn.Module | None = None
) -> list[Rows | Diverged]:
    """Make runs side by side: what each of them would have given alone, or how it diverged.

    The jobs may differ in seed, learning rate, α and topology, and must stand at the same step.
    """
    folders = [RunFolder(job.out, resume=job.resume) for job in jobs]
    config = jobs[0].config
    if dataset is None:
        dataset = load(config.dataset, Path(config.data_dir) if config.data_dir else None)
    replicas = []
    for job in jobs:
        mine = module or build(job.config.model, dataset.shape, dataset.classes, job.config.seed)
        replicas.append(Replica(job.config, dataset, mine))
    device = pick_device(config.device)
    room = fit(replicas[0], dataset, device)
    if room < len(replicas):
        raise NotEnoughMemory(f"{len(replicas)} runs beside each other: {room} fit on {device}")
    engine = StackedEngine(dataset, replicas)
    runs = [
        _Run(job, folder, engine, replica)
        for replica, (job, folder) in enumerate(zip(jobs, folders, strict=True))
    ]
    for run in runs:
        run.begin(dataset)
    with _told_to_stop() as told:
        return _Loop(engine, runs).run(told)


class _Run:
    """One of the runs that share an engine: its folder and what it has seen so far."""

    def __init__(self, job: Job, folder: RunFolder, engine: StackedEngine, replica: int) -> None:
        self.config = job.config
        self.resume = job.resume
        self.watcher = job.watcher
        self.folder = folder
        self.engine = engine
        self.replica = replica
        self.fingerprint = engine.replicas[replica].fingerprint
        self.seconds = 0.0
        self.loss_sum, self.loss_count = 0.0, 0
        self.last_loss = math.nan
        self.rows: Rows = []
        self.failure: Diverged | None = None

    def begin(self, dataset: Dataset) -> None:
        """Start the folder, or continue from its checkpoint."""
        self.folder.clear_leftovers()
        facts = self.engine.facts(self.replica)
        if self.resume and self.folder.checkpoint.is_file():
            self._continue()
        else:
            self.folder.start(self.config, dataset, facts)
        self.watcher.started(facts)

    def _continue(self) -> None:
        """Continue from the folder's checkpoint, with the metrics that it knew of."""
        tensors, facts = checkpoint.load(self.folder.checkpoint)
        if facts["fingerprint"] != self.fingerprint:
            raise InvalidArgument("--out", str(self.folder.path), "was run on other data or models")
        for name, value in self.config.computes().items():
            there = facts["config"].get(name)
            if there != value:
                raise InvalidArgument(name, value, f"the checkpoint's run has {there!r}")
        if self.replica and facts["step"] != self.engine.step:
            raise InvalidArgument("step", facts["step"], f"others are at {self.engine.step}")
        self.engine.restore(tensors, facts["step"], self.replica)
        self.seconds = facts["seconds"]
        self.loss_sum, self.loss_count = facts["loss_sum"], facts["loss_count"]
        self.rows = [row for row in self.folder.rows() if row["step"] <= facts["step"]]
        self.folder.keep(self.rows)

    def see(self, losses: Tensor) -> None:
        """Take the losses (steps, N) of all runs' nodes that have come in, up to this step."""
        losses = losses[:, self.engine.rows(self.replica)]
        good = torch.isfinite(losses)
        if not good.all():
            step, node = (int(i) for i in torch.nonzero(~good)[0])
            what = f"the loss of node {node} is {float(losses[step, node])}"
            raise self._diverged(what, self.engine.step - len(losses) + step)
        for loss in losses.mean(dim=1).tolist():
            self.loss_sum += loss
            self.last_loss = loss
        self.loss_count += len(losses)

    def evaluate(self, epoch: int) -> dict[str, Any]:
        """Add a row to the metrics."""
        self._refuse_infinite()
        engine = self.engine
        row: dict[str, Any] = {
            "epoch": epoch,
            "step": engine.step,
            "train_loss": self.loss_sum / self.loss_count if self.loss_count else math.nan,
        }
        for name, found in engine.evaluate(self.replica).items():
            row[f"{name}_accuracy"] = found.mean
            row[f"{name}_accuracy_averaged"] = found.averaged
            row[f"{name}_accuracy_worst"] = found.worst
        row["consensus_distance"] = consensus_distance(engine.x_nd[engine.rows(self.replica)])
        row["bytes_per_node"] = engine.bytes_sent(self.replica)
        row["seconds"] = round(self.seconds, 3)
        self.loss_sum, self.loss_count = 0.0, 0
        self.rows.append(row)
        self.folder.append(row)
        return row

    def save(self) -> None:
        """Write a checkpoint of the last completed step."""
        self._refuse_infinite()
        facts = {
            "step": self.engine.step,
            "config": self.config.computes(),
            "fingerprint": self.fingerprint,
            "seconds": self.seconds,
            "loss_sum": self.loss_sum,
            "loss_count": self.loss_count,
        }
        checkpoint.save(self.folder.checkpoint, self.engine.tensors(self.replica), facts)

    def _refuse_infinite(self) -> None:
        """Neither evaluate nor keep models that are no longer numbers."""
        for name, tensor in self.engine.tensors(self.replica).items():
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


class _Loop:
    """Steps of an engine, and the evaluations and checkpoints of its runs on the way."""

    def __init__(self, engine: StackedEngine, runs: list[_Run]) -> None:
        self.engine = engine
        self.runs = runs
        config = engine.config
        self.evaluate_every = config.evaluate_every or max(1, config.epochs // 20)
        self.checkpoint_every = config.checkpoint_every or self.evaluate_every
        self.pending = 0

    def run(self, told: list[int]) -> list[Rows | Diverged]:
        """Step to the end, or until no run is left."""
        engine, total = self.engine, self.engine.total_steps
        spent = max(run.seconds for run in self.runs)
        began = time.perf_counter() - spent
        while engine.step < total and self._alive():
            engine.advance()
            self.pending += 1
            epoch, within = divmod(engine.step, engine.steps_per_epoch)
            last = engine.step == total
            evaluates = not within and (epoch % self.evaluate_every == 0 or last)
            saves = not within and (epoch % self.checkpoint_every == 0 or last)
            if self.pending >= self._patience() or evaluates or saves or told:
                self._settle()
            seconds = time.perf_counter() - began
            for run in self._alive():
                run.seconds = seconds
                run.watcher.stepped(engine.step, total, run.last_loss)
            self._each(partial(self._keep, epoch=epoch, evaluates=evaluates, saves=saves))
            if told:
                self._each(lambda run: run.save())
                raise self._interrupted(told[0], total)
        return [run.failure or run.rows for run in self.runs]

    @staticmethod
    def _keep(run: _Run, epoch: int, evaluates: bool, saves: bool) -> None:
        row = run.evaluate(epoch) if evaluates else None
        if saves:
            run.save()
        if row is not None:
            run.watcher.evaluated(row)

    def _patience(self) -> int:
        """A GPU is asked for its losses only now and then, so as not to wait for it."""
        return 1 if self.engine.device.type == "cpu" else PENDING

    def _settle(self) -> None:
        """Look at the losses that have come in: they must be numbers, and they are summed."""
        losses = self.engine.losses()
        self.pending = 0
        self._each(lambda run: run.see(losses))

    def _alive(self) -> list[_Run]:
        return [run for run in self.runs if run.failure is None]

    def _each(self, work: Callable[[_Run], None]) -> None:
        """Do this for every run that is left; one that diverges stops alone."""
        for run in self._alive():
            try:
                work(run)
            except Diverged as error:
                run.failure = error
                run.watcher.failed(error)

    def _interrupted(self, number: int, total: int) -> Interrupted:
        folders = [str(run.folder.path) for run in self._alive()]
        where = folders[0] if len(folders) == 1 else f"each of {len(folders)} folders"
        return Interrupted(
            f"stopped by {signal.Signals(number).name} after step {self.engine.step} of "
            f"{total}; checkpoint in {where}, --resume continues",
            128 + number,
        )


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
