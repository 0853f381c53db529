"""The learning rate of every step."""

from __future__ import annotations

from math import cos, pi


def learning_rate(
    step: int, steps_per_epoch: int, epochs: int, *, peak: float, warmup: int, schedule: str
) -> float:
    """Linear warm-up to `peak`, then half a cosine down to zero (or `peak` for ever).

    Args:
        step: The step, from 0.
        steps_per_epoch: Steps of an epoch.
        epochs: Epochs of the whole run.
        peak: The highest learning rate.
        warmup: Epochs of the warm-up, which takes at most a tenth of all.
        schedule: `cosine` or `constant`.

    Example:
        >>> plan = {"peak": 1.0, "warmup": 2, "schedule": "cosine"}
        >>> [round(learning_rate(step, 1, 20, **plan), 3) for step in (0, 1, 2, 11, 19)]
        [0.5, 1.0, 1.0, 0.5, 0.008]

    """
    rising = min(warmup, epochs // 10) * steps_per_epoch
    if step < rising:
        return peak * (step + 1) / rising
    if schedule == "constant":
        return peak
    total = epochs * steps_per_epoch
    return peak * (1 + cos(pi * (step - rising) / (total - rising))) / 2
