"""The learning rate of every step."""

from __future__ import annotations

from math import cos, pi


def learning_rate(
    step: int,
    steps_per_epoch: int,
    epochs: int,
    *,
    peak: float,
    warmup: int,
    schedule: str,
    lowest: float = 0.0,
    warmup_start: float = 0.0,
    changes: str = "step",
    cosine_epochs: int = 0,
) -> float:
    """Linear warm-up to `peak`, then half a cosine down to `lowest` (or `peak` forever).

    Args:
        step: The step, from 0.
        steps_per_epoch: Steps of an epoch.
        epochs: Epochs of the whole run.
        peak: The highest learning rate.
        warmup: Epochs of the warm-up, which takes at most a tenth of all.
        schedule: `cosine` or `constant`.
        lowest: Where the cosine ends.
        warmup_start: Where the warm-up begins: the first step is one step above it, or the first
            epoch at it.
        changes: `step` or `epoch`: how often the learning rate changes.
        cosine_epochs: How long the half cosine would be; 0: as long as the run is after the
            warm-up. A longer one is cut off by the end, a shorter one is followed by `lowest`.

    Example:
        >>> plan = {"peak": 1.0, "warmup": 2, "schedule": "cosine"}
        >>> [round(learning_rate(step, 1, 20, **plan), 3) for step in (0, 1, 2, 11, 19)]
        [0.5, 1.0, 1.0, 0.5, 0.008]
        >>> plan |= {"lowest": 0.2, "warmup_start": 0.4, "changes": "epoch"}
        >>> [round(learning_rate(step, 2, 20, **plan), 3) for step in (0, 1, 2, 3, 4, 22, 39)]
        [0.4, 0.4, 0.7, 0.7, 1.0, 0.6, 0.206]
        >>> [round(learning_rate(s, 2, 20, **plan, cosine_epochs=20), 3) for s in (4, 24, 39)]
        [1.0, 0.6, 0.244]

    """
    ahead = 1
    if changes == "epoch":
        step, steps_per_epoch, ahead = step // steps_per_epoch, 1, 0
    rising = min(warmup, epochs // 10) * steps_per_epoch
    if step < rising:
        return warmup_start + (peak - warmup_start) * (step + ahead) / rising
    if schedule == "constant":
        return peak
    length = cosine_epochs * steps_per_epoch or epochs * steps_per_epoch - rising
    done = min(1.0, (step - rising) / length)
    return lowest + (peak - lowest) * (1 + cos(pi * done)) / 2
