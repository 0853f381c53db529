"""The loop around an engine, and how runs stop and continue.

Several runs may share an engine, each with its own folder, as if it ran alone. A run that is
stopped at any step continues as if it had not been.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from basegraph.data.dataset import Dataset
from basegraph.engines.checkpoint import CheckpointError, require_tensors
from basegraph.engines.evaluation import Accuracy
from basegraph.errors import BasegraphError, InvalidArgument, short
from basegraph.training.config import MISSING, RunConfig
from basegraph.training.folder import RunFolder
from basegraph.training.problem import Problem
from basegraph.training.selection import Selection
from basegraph.training.threads import using_threads


class Engine(Protocol):
    """What makes the steps of one or several runs."""

    config: RunConfig
    replicas: list[Problem]
    steps_per_epoch: int
    total_steps: int
    patience: int
    """Steps whose losses it may keep to itself."""
    alone: bool
    """Whether it may stop at any step, without asking anybody."""

    @property
    def step(self) -> int:
        """Steps made so far."""

    def advance(self) -> None:
        """Make one step of all nodes."""

    def losses(self) -> Tensor:
        """The nodes' losses (steps, N) at the steps since this was last asked."""

    def heed(self, told: list[int]) -> list[int]:
        """The signals to be obeyed now, of those that have been seen."""

    def rows(self, replica: int) -> slice:
        """Where a replica's nodes are among all."""

    def evaluate(self, replica: int, selection: Selection) -> dict[str, Accuracy]:
        """Accuracies of these nodes on these samples, by set."""

    def consensus_distance(self, replica: int) -> float:
        """(1/n) Σ_i |x_i - mean|²."""

    def not_finite(self, replica: int) -> tuple[str, int] | None:
        """What is no number any more, and at which node."""

    def bytes_sent(self, replica: int) -> float:
        """What a node has sent so far, in the mean over nodes."""

    def facts(self, replica: int) -> dict[str, Any]:
        """What is known before the first step and is no choice of the user's."""

    def tensors(self, replica: int) -> dict[str, Tensor]:
        """Everything that a resumed run needs besides the step."""

    def restore(self, tensors: dict[str, Tensor], step: int, replica: int) -> None:
        """Continue from what `tensors` gave at this step."""


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
    """What a run tells whoever watches: at the start, after a step, after an evaluation."""

    stepped: Callable[[int, int, float], None] = lambda step, total, loss: None
    evaluated: Callable[[dict[str, Any]], None] = lambda row: None
    started: Callable[[dict[str, Any]], None] = lambda facts: None
    failed: Callable[[Diverged], None] = lambda error: None
    noted: Callable[[str], None] = lambda line: None


class Run:
    """One of the runs that share an engine: its folder and what it has seen so far."""

    def __init__(
        self,
        folder: RunFolder,
        engine: Engine,
        watcher: Watcher,
        replica: int = 0,
        evaluation_threads: int | None = None,
    ) -> None:
        self.folder = folder
        self.engine = engine
        self.watcher = watcher
        self.replica = replica
        self.evaluation_threads = evaluation_threads or torch.get_num_threads()
        self.config = engine.replicas[replica].config
        self.fingerprint = engine.replicas[replica].fingerprint
        self.seconds = 0.0
        self.bytes_before = 0.0  # what a node sent while there were others of them
        self.loss_sum, self.loss_count = 0.0, 0
        self.reported = False  # whether a row has these losses: the next ones begin anew
        self.last_loss = math.nan
        self.rows: Rows = []
        self.failure: Diverged | None = None

    def begin(self, dataset: Dataset) -> None:
        """Start the folder, or continue from its checkpoint."""
        self.folder.clear_leftovers()
        facts = self.engine.facts(self.replica)
        saved = self._load()
        if saved is not None:
            self._continue(*saved)
        else:
            self.folder.start(self.config, dataset, facts)
        self.watcher.started(facts)

    def _load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The checkpoint to continue from, if there is one: of this run, but for its nodes."""
        saved = self.folder.load()
        if saved is None:
            return None
        tensors, facts = saved
        path, config = self.folder.checkpoint, facts["config"]
        self._require_same({**facts, "config": {**config, "nodes": self.config.nodes}})
        if facts["step"] > (last := config["epochs"] * facts["steps_per_epoch"]):
            raise CheckpointError(f"{path}: step={facts['step']}: must be at most {last}")
        replica = self.engine.replicas[self.replica]
        model = replica.model.initial()
        x_nd = model.new_empty(config["nodes"], len(model), device="meta")
        state = replica.method.init(x_nd)._asdict()
        like = {"x": x_nd, **{f"state.{name}": part for name, part in state.items()}}
        require_tensors(path, tensors, like)
        return saved

    def _continue(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Continue from a checkpoint, with the metrics that it knew of."""
        self._require_same(facts)
        if self.replica and facts["step"] != self.engine.step:
            raise InvalidArgument("step", facts["step"], f"others are at {self.engine.step}")
        self.engine.restore(tensors, facts["step"], self.replica)
        self._spent(facts)
        self._keep_rows(facts["step"], self.engine.steps_per_epoch)

    def _keep_rows(self, step: int, steps_per_epoch: int) -> None:
        """Drop the rows of what comes after this step, by epochs: with other numbers of nodes
        before, the steps of earlier rows were others.
        """
        rows = self.folder.rows()
        self.rows = [row for row in rows if row["epoch"] * steps_per_epoch <= step]
        self.folder.keep(self.rows)

    def has_row(self, epoch: int) -> bool:
        """Whether this epoch has been evaluated."""
        return any(row["epoch"] == epoch for row in self.rows)

    @property
    def bytes_sent(self) -> float:
        """What a node has sent in all, in the mean over nodes."""
        return self.bytes_before + self.engine.bytes_sent(self.replica)

    def _spent(self, facts: dict[str, Any]) -> None:
        """Go on counting where a checkpoint's run had come to."""
        now = self.engine.bytes_sent(self.replica)
        self.seconds = facts["seconds"]
        self.bytes_before = facts.get("bytes", now) - now
        self.loss_sum, self.loss_count = facts["loss_sum"], facts["loss_count"]

    def _require_same(self, facts: dict[str, Any]) -> None:
        """Refuse what a run of other data, models or settings has saved."""
        if facts["fingerprint"] != self.fingerprint:
            raise InvalidArgument("--out", str(self.folder.path), "was run on other data or models")
        for name, value in self.config.computes().items():
            there = facts["config"].get(name, MISSING.get(name))
            if there != value:
                raise InvalidArgument(name, value, f"the checkpoint's run has {short(there)}")

    def see(self, losses: Tensor) -> None:
        """Take the losses (steps, N) of all runs' nodes that have come in, up to this step."""
        losses = losses[:, self.engine.rows(self.replica)]
        good = torch.isfinite(losses)
        if not good.all():
            step, node = (int(i) for i in torch.nonzero(~good)[0])
            what = f"the loss of node {node} is {float(losses[step, node])}"
            raise self._diverged(what, self.engine.step - len(losses) + step)
        if self.reported:
            self.loss_sum, self.loss_count, self.reported = 0.0, 0, False
        for loss in losses.mean(dim=1).tolist():
            self.loss_sum += loss
            self.last_loss = loss
        self.loss_count += len(losses)

    def evaluate(self, epoch: int) -> dict[str, Any]:
        """Add a row to the metrics; the last one is of all nodes and samples."""
        self._refuse_infinite()
        engine = self.engine
        mine, last = engine.replicas[self.replica], engine.step == engine.total_steps
        selection = mine.evaluated_last if last else mine.evaluated
        row: dict[str, Any] = {
            "epoch": epoch,
            "step": engine.step,
            "train_loss": self.loss_sum / self.loss_count if self.loss_count else math.nan,
        }
        with using_threads(self.evaluation_threads):
            accuracies = engine.evaluate(self.replica, selection)
        for name, found in accuracies.items():
            row[f"{name}_accuracy"] = found.mean
            row[f"{name}_accuracy_averaged"] = found.averaged
            row[f"{name}_accuracy_worst"] = found.worst
        row |= selection.counts()
        row["consensus_distance"] = engine.consensus_distance(self.replica)
        row["bytes_per_node"] = self.bytes_sent
        row["seconds"] = round(self.seconds, 3)
        self.rows.append(row)
        self.folder.append(row)
        self.reported = True
        return row

    def save(self) -> None:
        """Write a checkpoint of the last completed step."""
        self._refuse_infinite()
        facts = {
            "step": self.engine.step,
            "steps_per_epoch": self.engine.steps_per_epoch,
            "config": self.config.computes(),
            "fingerprint": self.fingerprint,
            "seconds": self.seconds,
            "bytes": self.bytes_sent,
            "loss_sum": self.loss_sum,
            "loss_count": self.loss_count,
        }
        self.folder.save(self.engine.tensors(self.replica), facts)

    def _refuse_infinite(self) -> None:
        """Neither evaluate nor keep models that are no longer numbers."""
        found = self.engine.not_finite(self.replica)
        if found is not None:
            name, node = found
            raise self._diverged(f"{name} of node {node} is not finite", self.engine.step - 1)

    def _diverged(self, what: str, step: int) -> Diverged:
        return Diverged(
            f"{what} at step {step}; last good checkpoint: {self.folder.last_good()}. A smaller "
            f"--lr may help"
        )


class Loop:
    """Steps of an engine, and the evaluations and checkpoints of its runs on the way."""

    def __init__(self, engine: Engine, runs: list[Run]) -> None:
        self.engine = engine
        self.runs = runs
        config = engine.config
        self.evaluate_every = config.epochs_between_evaluations()
        self.checkpoint_every = config.checkpoint_every or self.evaluate_every
        self.pending = 0

    def run(self, told: list[int]) -> list[Rows | Diverged]:
        """Step to the end, or until no run is left."""
        engine, total = self.engine, self.engine.total_steps
        spent = max(run.seconds for run in self.runs)
        began = time.perf_counter() - spent
        self._make_up()
        while engine.step < total and self._alive():
            engine.advance()
            self.pending += 1
            epoch = engine.step // engine.steps_per_epoch
            evaluates, saves = self._due(self.evaluate_every), self._due(self.checkpoint_every)
            stop: list[int] = []
            due = self.pending >= engine.patience or evaluates or saves
            if due or (told and engine.alone):
                self._settle()
                stop = engine.heed(told)
            seconds = time.perf_counter() - began
            for run in self._alive():
                run.seconds = seconds
                run.watcher.stepped(engine.step, total, run.last_loss)
            self._each(partial(self._keep, epoch=epoch, evaluates=evaluates, saves=saves))
            if stop:
                self._each(lambda run: run.save())
                raise self._interrupted(stop[0], total)
        return [run.failure or run.rows for run in self.runs]

    def _due(self, every: int) -> bool:
        """Whether an epoch has just ended, after which something is done every so many epochs."""
        epoch, within = divmod(self.engine.step, self.engine.steps_per_epoch)
        last = self.engine.step == self.engine.total_steps
        return not within and epoch > 0 and (epoch % every == 0 or last)

    def _make_up(self) -> None:
        """Make the row that is missing where a run goes on: a fault came into its evaluation."""
        if not self._due(1):
            return
        epoch = self.engine.step // self.engine.steps_per_epoch

        def make_up(run: Run) -> None:
            run.reported = run.has_row(epoch)
            if not run.reported and self._due(self.evaluate_every):
                self._keep(run, epoch, evaluates=True, saves=True)

        self._each(make_up)

    @staticmethod
    def _keep(run: Run, epoch: int, evaluates: bool, saves: bool) -> None:
        row = run.evaluate(epoch) if evaluates else None
        if saves:
            run.save()
        if row is not None:
            run.watcher.evaluated(row)

    def _settle(self) -> None:
        """Look at the losses that have come in: they must be numbers, and they are summed."""
        losses = self.engine.losses()
        self.pending = 0
        self._each(lambda run: run.see(losses))

    def _alive(self) -> list[Run]:
        return [run for run in self.runs if run.failure is None]

    def _each(self, work: Callable[[Run], None]) -> None:
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
