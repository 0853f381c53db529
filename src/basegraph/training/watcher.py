"""`Watcher`: callbacks of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from basegraph.errors import BasegraphError
from basegraph.training.metrics import Metrics
from basegraph.training.problem import Facts


@dataclass(frozen=True)
class Watcher:
    """What a run calls: at its start, after a step, after an evaluation, at its end.

    Example:
        >>> epochs = []
        >>> watcher = Watcher(evaluated=lambda metrics: epochs.append(metrics["epoch"]))

    """

    stepped: Callable[[int, int, float], None] = lambda step, total, loss: None
    """With the steps made, those of the whole run, and the mean loss of the last step."""
    evaluated: Callable[[Metrics], None] = lambda metrics: None
    """With what was measured, when it is on disk."""
    started: Callable[[Facts], None] = lambda facts: None
    """With what is known before the first step."""
    failed: Callable[[BasegraphError], None] = lambda error: None
    """With why the run has ended early, where others beside it go on."""
    ended: Callable[[list[Metrics]], None] = lambda rows: None
    """With all rows, when the run has come to its end."""
    noted: Callable[[str], None] = lambda line: None
    """With a line for the user."""
