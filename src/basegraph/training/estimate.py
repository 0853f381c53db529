"""About how long a run will take on a CPU, from a measurement before it begins."""

from __future__ import annotations

import time

import torch

from basegraph.data.augment import gather
from basegraph.engines.stacked.engine import StackedEngine

WORTH_SAYING = 60.0
"""Seconds from which a run's time is said beforehand."""


def estimate(engine: StackedEngine) -> str | None:
    """What to tell the user about the time that the steps will take, if it is long."""
    if engine.device.type != "cpu":
        return None
    seconds = seconds_of_gradients(engine) * (engine.total_steps - engine.step)
    if seconds < WORTH_SAYING:
        return None
    return f"the steps will take about {duration(seconds)}, evaluations not counted"


def seconds_of_gradients(engine: StackedEngine) -> float:
    """The time of one step's gradients; where nodes come one after another, one is measured."""
    nodes = 1 if engine.gradients.loops_on(engine.device) else len(engine.x_nd)
    places = torch.zeros(nodes, engine.config.batch, dtype=torch.int64)
    samples = gather(engine.images, places, engine.mean, engine.std)
    for _ in range(2):  # the first one allocates
        began = time.perf_counter()
        engine.gradients(engine.x_nd[:nodes], samples, engine.labels[places])
        seconds = time.perf_counter() - began
    return seconds * len(engine.x_nd) / nodes


def duration(seconds: float) -> str:
    """Seconds in the unit that people would choose.

    >>> duration(90), duration(5400), duration(1e6)
    ('1.5 minutes', '1.5 hours', '11.6 days')
    """
    for unit, length in (("days", 86400), ("hours", 3600)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds / 60:.1f} minutes"
