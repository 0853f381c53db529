"""The loop around an engine, and how runs stop.

Several runs may share an engine, each with its own folder, as if it ran by itself. A run that is
stopped at any step continues as if it had not been.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from functools import partial

from basegraph.engines.contract import Engine
from basegraph.errors import Interrupted
from basegraph.training.metrics import Metrics
from basegraph.training.run import Diverged, Run


class Loop:
    """Steps of an engine, and the evaluations and checkpoints of its runs on the way.

    Args:
        engine: What makes the steps.
        runs: The runs of the engine's views, in the same order.
        before_step: Called before every step, when all that was due after the last one is done.

    """

    def __init__(
        self,
        engine: Engine,
        runs: Sequence[Run],
        before_step: Callable[[], None] = lambda: None,
    ) -> None:
        self.engine = engine
        self.runs = runs
        self._before_step = before_step
        problem = runs[0].problem  # what follows is the same for all runs
        self.steps_per_epoch, self.total_steps = problem.steps_per_epoch, problem.total_steps
        self.evaluate_every = problem.config.epochs_between_evaluations()
        self.checkpoint_every = problem.config.checkpoint_every or self.evaluate_every
        self.checkpoint_last = problem.config.checkpoint_last

    def run(self, signals: list[int]) -> list[list[Metrics] | Diverged]:
        """Step to the end, or until no run is left.

        Args:
            signals: Signals that have asked this process to stop; read after every step.

        Returns:
            The rows of metrics of each run, or how it diverged.

        Raises:
            Interrupted: If a signal came.

        """
        engine = self.engine
        began = time.perf_counter() - max(run.seconds for run in self.runs)
        self._add_missing_rows()
        while engine.step < self.total_steps and self._running():
            self._before_step()
            engine.advance()
            evaluates, saves = self._due(self.evaluate_every), self._due(self.checkpoint_every)
            due = evaluates or saves or engine.losses_due(signals)
            if due:
                self._record_losses()
            seconds = time.perf_counter() - began
            for run in self._running():
                run.seconds = seconds
                run.watcher.stepped(engine.step, self.total_steps, run.last_loss)
            epoch = engine.step // self.steps_per_epoch
            self._each(partial(self._keep, epoch=epoch, evaluates=evaluates, saves=saves))
            stop = engine.agree_on_signals(signals) if due else []
            if stop:
                if self.checkpoint_last or engine.step < self.total_steps:
                    self._each(lambda run: run.save())
                raise self._interrupted(stop[0])
        for run in self._running():
            run.watcher.ended(run.rows)
        return [run.failure or run.rows for run in self.runs]

    def _due(self, every: int) -> bool:
        """Whether an epoch has just ended, after which something is done every so many epochs."""
        epoch, within = divmod(self.engine.step, self.steps_per_epoch)
        last = self.engine.step == self.total_steps
        return not within and epoch > 0 and (epoch % every == 0 or last)

    def _add_missing_rows(self) -> None:
        """Make the row that a run lacks where it goes on: a fault came into its evaluation."""
        if not self._due(1):
            return
        epoch = self.engine.step // self.steps_per_epoch

        def add_missing_row(run: Run) -> None:
            run.reported = run.has_row(epoch)
            if not run.reported and self._due(self.evaluate_every):
                self._keep(run, epoch, evaluates=True, saves=True)

        self._each(add_missing_row)

    def _keep(self, run: Run, epoch: int, evaluates: bool, saves: bool) -> None:
        row = run.evaluate(epoch) if evaluates else None
        if saves and (self.checkpoint_last or self.engine.step < self.total_steps):
            run.save()
        elif saves:
            run.folder.remove_checkpoint()
        if row is not None:
            run.watcher.evaluated(row)

    def _record_losses(self) -> None:
        """Hand the losses of the last steps to the runs, which refuse those that are not finite."""
        losses = dict(zip(self.runs, self.engine.losses(), strict=True))
        self._each(lambda run: run.record_losses(losses[run]))

    def _running(self) -> list[Run]:
        return [run for run in self.runs if run.failure is None]

    def _each(self, work: Callable[[Run], None]) -> None:
        """Do this for every run that is left; one that diverges does not stop the others."""
        for run in self._running():
            try:
                work(run)
            except Diverged as error:
                run.failure = error
                run.watcher.failed(error)

    def _interrupted(self, number: int) -> Interrupted:
        folders = [str(run.folder.path) for run in self._running()]
        where = folders[0] if len(folders) == 1 else f"each of {len(folders)} folders"
        return Interrupted(
            f"stopped by {signal.Signals(number).name} after step {self.engine.step} of "
            f"{self.total_steps}; checkpoint in {where}: resume it to continue",
            number,
        )
