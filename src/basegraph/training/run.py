"""`Run`: where a run stands, from its start or its checkpoint to its last row of metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from basegraph.data.dataset import Dataset
from basegraph.engines.checkpoint import Checkpoint, CheckpointError, require_tensors
from basegraph.engines.contract import EngineRun
from basegraph.engines.vectors import by_name
from basegraph.errors import InvalidArgument, RuntimeFailure, short
from basegraph.training.config import RunConfig, as_saved
from basegraph.training.folder import RunFolder
from basegraph.training.metrics import Metrics, make_metrics
from basegraph.training.problem import Facts, Problem, same_fingerprint
from basegraph.training.threads import using_threads
from basegraph.training.watcher import Watcher


class Diverged(RuntimeFailure):
    """A loss or a parameter became infinite or NaN.

    Args:
        message: What it was, which checkpoint is good, and what may help.
        what: The first of these alone.

    """

    def __init__(self, message: str, what: str = "") -> None:
        super().__init__(message)
        self.what = what or message


class Run:
    """What a run has seen so far, and its folder.

    Args:
        problem: What it computes.
        view: Its nodes on the engine.
        folder: Its files.
        watcher: What it calls on the way.
        evaluation_threads: CPU threads of an evaluation; without it, as many as torch uses now.

    """

    def __init__(
        self,
        problem: Problem,
        view: EngineRun,
        folder: RunFolder,
        watcher: Watcher,
        evaluation_threads: int | None = None,
    ) -> None:
        self.problem = problem
        self.config = problem.config
        self.view = view
        self.folder = folder
        self.watcher = watcher
        self.evaluation_threads = evaluation_threads or torch.get_num_threads()
        self.seconds = 0.0
        self.bytes_before = 0.0  # what a node sent while there was another number of them
        self.loss_sum, self.loss_count = 0.0, 0
        self.reported = False  # whether a row has these losses: the next ones begin anew
        self.last_loss = math.nan
        self.rows: list[Metrics] = []
        self.failure: Diverged | None = None

    # -- start -------------------------------------------------------------------------------

    def load(self) -> Checkpoint | None:
        """The checkpoint to continue from, if there is one: of this run, but for its nodes.

        Raises:
            InvalidArgument: If it is of another run.
            CheckpointError: If it does not hold what it should.

        """
        self.folder.clear_leftovers()
        saved = self.folder.load()
        if saved is None:
            if self.folder.resume and self.folder.results():
                raise InvalidArgument(
                    "out",
                    str(self.folder.path),
                    "holds a run that has ended and kept no checkpoint: nothing is left to be done",
                )
            return None
        path, facts, config = self.folder.checkpoint, saved.facts, saved.facts["config"]
        self._require_same({**facts, "config": {**config, "nodes": self.config.nodes}})
        if facts["step"] > (last := config["epochs"] * facts["steps_per_epoch"]):
            raise CheckpointError(f"{path}: step={facts['step']}: must be at most {last}")
        model = self.problem.model.initial()
        x_nd = model.new_empty(config["nodes"], len(model), device="meta")
        require_tensors(path, saved.tensors, by_name(x_nd, self.problem.method.init(x_nd)))
        return saved

    def begin(self, dataset: Dataset, saved: Checkpoint | None) -> None:
        """Start the folder, or continue from its checkpoint."""
        if saved is None:
            self.folder.start(self.config, dataset, self.facts())
        else:
            self._continue(saved)
        self.watcher.started(self.facts())

    def facts(self) -> Facts:
        """What is known before the first step and is no choice of the user's."""
        return self.problem.facts(self.view.hardware)

    def _continue(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint, with the metrics that it knew of."""
        step = saved.facts["step"]
        self._require_same(saved.facts)
        self.view.restore(saved.tensors, step)
        self._count_from(saved.facts)
        self._keep_rows(step, self.problem.steps_per_epoch)

    def _keep_rows(self, step: int, steps_per_epoch: int) -> None:
        """Drop the rows of what comes after this step.

        Rows are compared by epoch: with another number of nodes before, the steps of earlier rows
        were others.
        """
        rows = self.folder.rows()
        self.rows = [row for row in rows if row["epoch"] * steps_per_epoch <= step]
        self.folder.keep(self.rows)

    def _count_from(self, facts: dict[str, Any]) -> None:
        """Go on counting from what a checkpoint's run had come to."""
        now = self._bytes_of_these_nodes()
        self.seconds = facts["seconds"]
        self.bytes_before = facts.get("bytes", now) - now
        self.loss_sum, self.loss_count = facts["loss_sum"], facts["loss_count"]

    def _require_same(self, facts: dict[str, Any]) -> None:
        """Refuse what a run of other data, models or settings has saved."""
        require_same_settings(self.config, as_saved(facts["config"]), "the run that is resumed")
        if not same_fingerprint(facts["fingerprint"], self.problem.fingerprint):
            raise InvalidArgument("out", str(self.folder.path), "was run on other data or models")

    # -- on the way --------------------------------------------------------------------------

    @property
    def bytes_sent(self) -> float:
        """What a node has sent in all, in the mean over nodes."""
        return self.bytes_before + self._bytes_of_these_nodes()

    def _bytes_of_these_nodes(self) -> float:
        """What a node has sent since there are so many of them."""
        return self.problem.bytes_sent(self.view.step)

    def has_row(self, epoch: int) -> bool:
        """Whether this epoch has been evaluated."""
        return any(row["epoch"] == epoch for row in self.rows)

    def record_losses(self, losses: Tensor) -> None:
        """Take the losses (steps, n) of the last steps, up to this one.

        Raises:
            Diverged: If one of them is not finite.

        """
        good = torch.isfinite(losses)
        if not good.all():
            step, node = (int(i) for i in torch.nonzero(~good)[0])
            what = f"the loss of node {node} is {float(losses[step, node])}"
            raise self._diverged(what, self.view.step - len(losses) + step)
        if self.reported:
            self.loss_sum, self.loss_count, self.reported = 0.0, 0, False
        for loss in losses.mean(dim=1).tolist():
            self.loss_sum += loss
            self.last_loss = loss
        self.loss_count += len(losses)

    def evaluate(self, epoch: int) -> Metrics:
        """Add a row to the metrics; the last one is of all nodes and samples.

        Raises:
            Diverged: If a model is not finite.

        """
        self._refuse_nonfinite()
        step, problem = self.view.step, self.problem
        last = step == problem.total_steps
        selection = problem.evaluated_last if last else problem.evaluated
        with using_threads(self.evaluation_threads):
            scores = self.view.evaluate(selection)
        row = make_metrics(
            epoch=epoch,
            step=step,
            train_loss=self.loss_sum / self.loss_count if self.loss_count else math.nan,
            measure=problem.measure.name,
            scores={name: scores[name] for name in selection.sets},
            selection=selection,
            consensus_distance=self.view.consensus_distance(),
            bytes_per_node=self.bytes_sent,
            seconds=self.seconds,
            tokens=problem.tokens_seen(step),
            bits_per_nat=problem.tokens.bits_per_nat(selection) if problem.tokens else None,
        )
        if problem.tokens is not None and "test" in selection.groups:
            self.folder.write_domains(problem.tokens.domain_rows(scores, selection))
        self.rows.append(row)
        self.folder.append(row)
        self.reported = True
        return row

    def save(self) -> None:
        """Write a checkpoint of the last completed step.

        Raises:
            Diverged: If a model is not finite.

        """
        self._refuse_nonfinite()
        facts = {"step": self.view.step, **self.progress()}
        self.folder.save(self.view.tensors(), facts)

    def progress(self) -> dict[str, Any]:
        """What a checkpoint says besides its step and its tensors."""
        return {
            "steps_per_epoch": self.problem.steps_per_epoch,
            "config": self.config.computes(),
            "fingerprint": self.problem.fingerprint,
            "seconds": self.seconds,
            "bytes": self.bytes_sent,
            "loss_sum": self.loss_sum,
            "loss_count": self.loss_count,
            "parameters": self.problem.model.described_shapes(),
            "ties": self.problem.model.ties,
        }

    def _refuse_nonfinite(self) -> None:
        """Neither evaluate nor keep models that are not finite."""
        nonfinite = self.view.first_nonfinite()
        if nonfinite is not None:
            name, node = nonfinite
            raise self._diverged(f"{name} of node {node} is not finite", self.view.step - 1)

    def _diverged(self, what: str, step: int) -> Diverged:
        what = f"{what} at step {step}"
        good = self.folder.last_good()
        return Diverged(f"{what}; last good checkpoint: {good}. A smaller lr may help", what)


def require_same_settings(config: RunConfig, saved: Mapping[str, Any], run: str) -> None:
    """Refuse to go on with a run that has other settings: results would be mixed.

    Args:
        config: The settings now.
        saved: The fields of the run.
        run: What to call it.

    Raises:
        InvalidArgument: If a field that determines numbers differs.

    """
    for name, value in config.computes().items():
        if saved.get(name) != value:
            has = short(saved.get(name))
            raise InvalidArgument(name, value, f"differs from {run}, which has {has}")


def begin_together(runs: Sequence[Run], dataset: Dataset) -> None:
    """Begin runs that share an engine: all from the start, or all from the same step.

    Raises:
        InvalidArgument: If their checkpoints are of different steps.

    """
    saved = [run.load() for run in runs]
    steps = {checkpoint.facts["step"] if checkpoint else 0 for checkpoint in saved}
    if len(steps) > 1:
        raise InvalidArgument(
            "runs", sorted(steps), "must be at the same step to go on side by side"
        )
    for run, checkpoint in zip(runs, saved, strict=True):
        run.begin(dataset, checkpoint)
