"""About how long a run will take on a CPU, from a measurement before it begins."""

from __future__ import annotations

import time

import torch

from basegraph.engines.stacked.nodes import StackedNodes

WORTH_SAYING = 60.0
"""Seconds from which a run's time is said beforehand."""


def estimate(nodes: StackedNodes) -> str | None:
    """What to tell the user about the time that the steps will take, if it is long.

    Args:
        nodes: What is about to be trained.

    Returns:
        A line, or None: on a GPU, and where it is quick.

    """
    if nodes.device.type != "cpu":
        return None
    seconds = seconds_of_gradients(nodes) * (nodes.total_steps - nodes.step)
    if seconds < WORTH_SAYING:
        return None
    return f"the steps will take about {duration(seconds)}, evaluations not counted"


def seconds_of_gradients(nodes: StackedNodes) -> float:
    """The time of one step's gradients; where nodes come one after another, one is measured."""
    count = 1 if nodes.gradients.loops_on(nodes.device) else len(nodes.x_nd)
    places = torch.zeros(count, nodes.problems[0].planner.batch, dtype=torch.int64)
    samples, labels = nodes.data.batch({"sample": places})
    for _ in range(2):  # the first one allocates
        began = time.perf_counter()
        nodes.gradients(nodes.x_nd[:count], samples, labels)
        seconds = time.perf_counter() - began
    return seconds * len(nodes.x_nd) / count


def duration(seconds: float) -> str:
    """Seconds in the unit that people would choose.

    >>> duration(90), duration(5400), duration(1e6)
    ('1.5 minutes', '1.5 hours', '11.6 days')
    """
    for unit, length in (("days", 86400), ("hours", 3600)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds / 60:.1f} minutes"
