"""Raw numbers of many Philox generators at once, each of which is asked for few.

Making one of numpy's generators takes 20 µs, as long as thousands of its numbers. Where many are
needed for a few numbers each, their blocks are computed together: Philox 4x64 in ten rounds
(Salmon et al. 2011), the same bits that `numpy.random.Philox` gives.

Shape legend: r generators; count numbers of each, in blocks of four.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from basegraph.topologies.core.random import philox
from basegraph.topologies.core.round import IntArray

Words = NDArray[np.uint64]
FEW_NUMBERS = 256
"""Numbers up to which computing the blocks here is quicker than making a generator."""
_CHUNK = 4096
"""Blocks computed at a time, which the cache holds."""
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_LOW, _HALF = np.uint64(2**32 - 1), np.uint64(32)


def raw_words(
    seed: int, streams: IntArray, counters: IntArray, count: int, start: int = 0
) -> Words:
    """(r, count): what `philox(seed, streams[i], (start, counters[i], 0, 0))` gives.

    >>> raw_words(1, np.array([2]), np.array([3]), 2) == philox(1, 2, (0, 3, 0, 0)).random_raw(2)
    array([[ True,  True]])
    """
    words = np.empty((len(streams), count), dtype=np.uint64)
    if count > FEW_NUMBERS:
        for row, stream, counter in zip(words, streams, counters, strict=True):
            row[:] = philox(seed, stream, (start, counter, 0, 0)).random_raw(count)
        return words
    blocks = -(-count // 4)
    # A generator moves its counter on before it gives a block.
    places = np.arange(1, blocks + 1, dtype=np.uint64) + np.uint64(start)
    rows = max(1, _CHUNK // blocks)
    for first in range(0, len(streams), rows):
        here = slice(first, first + rows)
        given = _blocks(seed, streams[here].astype(np.uint64), places, counters[here])
        words[here] = given.reshape(len(given), 4 * blocks)[:, :count]
    return words


def _blocks(seed: int, streams: Words, places: Words, counters: IntArray) -> Words:
    """(r, blocks, 4): the blocks at these places of the counters."""
    shape = len(streams), len(places)
    key = [np.array([[seed]], dtype=np.uint64), streams[:, None]]
    x0 = np.broadcast_to(places, shape)
    x1 = np.broadcast_to(counters.astype(np.uint64)[:, None], shape)
    x2 = x3 = np.zeros(shape, dtype=np.uint64)
    for _ in range(10):
        high0, low0 = _product(_MULTIPLIERS[0], x0)
        high1, low1 = _product(_MULTIPLIERS[1], x2)
        x0, x1, x2, x3 = high1 ^ x1 ^ key[0], low1, high0 ^ x3 ^ key[1], low0
        key = [part + np.uint64(step) for part, step in zip(key, _KEY_STEPS, strict=True)]
    return np.stack([x0, x1, x2, x3], axis=-1)


def _product(factor: int, x: Words) -> tuple[Words, Words]:
    """The high and the low 64 bits of factor * x."""
    high, low = np.uint64(factor >> 32), np.uint64(factor & (2**32 - 1))
    x_high, x_low = x >> _HALF, x & _LOW
    middle = x_high * low + (x_low * low >> _HALF)
    carried = x_low * high + (middle & _LOW)
    return x_high * high + (middle >> _HALF) + (carried >> _HALF), x * np.uint64(factor)
