"""Random numbers as a pure function of a key: the same on every machine, in every order.

All of them come from Philox, a counter-based generator, and this module is where its keys are
defined: a key is a seed and a stream of 64 bits each. `integers` uses only the raw output, which is
fixed, while the streams of numpy's distributions may change from release to release; the ranks of a
job must draw the same graph without talking.
"""

from __future__ import annotations

import numpy as np

from basegraph.topologies.core.integers import at_least

Counter = tuple[int, int, int, int]


def philox(seed: int, stream: int = 0, counter: Counter = (0, 0, 0, 0)) -> np.random.Philox:
    """The bit generator of a key, set to a counter.

    Args:
        seed: The low 64 bits of the key; with stream 0, up to 128 bits.
        stream: The high 64 bits: streams of one seed are independent.
        counter: Four words of 64 bits, the first of which counts the blocks given out.

    """
    return np.random.Philox(key=seed + (stream << 64), counter=np.array(counter, dtype=np.uint64))


def generator(seed: int, stream: int = 0) -> np.random.Generator:
    """numpy's generator of a key, for distributions.

    >>> bool(generator(3).standard_normal() == generator(3).standard_normal())
    True
    """
    return np.random.Generator(philox(seed, stream))


def integers(
    low: int, high: int, count: int, *, seed: int, step: int, stream: int = 0
) -> list[int]:
    """Independent uniform integers, a pure function of (seed, step, stream).

    Args:
        low: The smallest integer.
        high: One past the largest.
        count: How many.
        seed: Below 2**64.
        step: Below 2**64; steps are independent.
        stream: Streams of one step are independent.

    Raises:
        InvalidArgument: If the seed or the step is out of range.

    Example:
        >>> integers(1, 7, 5, seed=0, step=0) == integers(1, 7, 9, seed=0, step=0)[:5]
        True

    """
    seed, step = at_least(0, below=2**64, seed=seed), at_least(0, below=2**64, step=step)
    bits = philox(seed, step, (0, 0, 0, stream))
    span = high - low
    fair = 2**64 - 2**64 % span  # raw values from here on would favor the small integers
    drawn: list[int] = []
    while len(drawn) < count:
        raw = int(bits.random_raw())
        if raw < fair:
            drawn.append(low + raw % span)
    return drawn
