"""Random integers as a pure function of (seed, step): the same on every machine.

Only the raw output of the counter-based Philox generator is used. Its stream is fixed, while the
streams of numpy's distributions may change from release to release, and the ranks of a job must
draw the same graph without talking.
"""

from __future__ import annotations

import numpy as np

from basegraph.topologies.core.integers import at_least


def integers(
    low: int, high: int, count: int, *, seed: int, step: int, stream: int = 0
) -> list[int]:
    """`count` independent uniform draws from low .. high-1; streams are independent too.

    >>> integers(1, 7, 5, seed=0, step=0) == integers(1, 7, 9, seed=0, step=0)[:5]
    True
    """
    seed, step = at_least(0, below=2**64, seed=seed), at_least(0, below=2**64, step=step)
    key = np.array([seed, step], dtype=np.uint64)
    generator = np.random.Philox(key=key, counter=np.array([0, 0, 0, stream], dtype=np.uint64))
    span = high - low
    fair = 2**64 - 2**64 % span  # raw values from here on would favor the small draws
    drawn: list[int] = []
    while len(drawn) < count:
        raw = int(generator.random_raw())
        if raw < fair:
            drawn.append(low + raw % span)
    return drawn
