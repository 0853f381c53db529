"""Partitions of nodes into a line of blocks: candidates, and which of them leave room."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from basegraph.topologies.core.round import IntArray
from basegraph.topologies.short.corner_middle import has_room
from basegraph.topologies.short.layout import Runs

PARTITIONS = 40
"""How many partitions, into rows and into columns, are laid out."""


def first_with_room(
    n: int, k: int, rows: tuple[Runs, ...], columns: tuple[Runs, ...]
) -> tuple[Runs, Runs] | None:
    """The first partition into rows, with the first one into columns, that leaves room."""
    by_length: dict[int, list[Runs]] = {}
    for partition in columns:
        by_length.setdefault(block_count(partition), []).append(partition)
    for row in rows:
        for width, group in by_length.items():
            if 2 * (block_count(row) - 1) * (width - 1) > k * n:
                continue  # more edges than the nodes can serve
            starts, stacked = _starts(row), np.stack([_starts(column) for column in group])
            # The smallest rows are at the ends: what fails mostly fails there.
            fits = has_room(starts[:2], stacked, n, k) & has_room(starts[-2:], stacked, n, k)
            fits[fits] = has_room(starts, stacked[fits], n, k)
            if fits.any():
                return row, group[int(np.argmax(fits))]
    return None


def block_count(partition: Runs) -> int:
    """The number of blocks in a line."""
    return sum(copies for _, copies in partition)


def _starts(partition: Runs) -> IntArray:
    sizes = np.repeat([size for size, _ in partition], [copies for _, copies in partition])
    return np.concatenate([[0], np.cumsum(sizes)])


def promising_partitions(n: int, sizes: tuple[int, ...]) -> tuple[Runs, ...]:
    """Promising partitions of n into few blocks of these sizes, which descend.

    All of the largest size but up to three, the smaller ones towards the ends.
    """
    largest, allowed = sizes[0], set(sizes)
    fewest = -(-n // largest)
    candidates: set[tuple[int, tuple[int, ...]]] = set()
    for count in (fewest, fewest + 1):
        for others in range(min(3, count) + 1):
            rest = n - (count - others) * largest
            for smaller in _sums(rest, others, sizes, allowed):
                candidates.add((count - others, smaller))
    ranked = sorted(
        candidates, key=lambda p: (p[0] + len(p[1]), [-size for size in reversed(p[1])], -p[0])
    )
    lines: dict[Runs, None] = {}
    for copies, smaller in ranked[:PARTITIONS]:
        whole = ((largest, copies),) if copies else ()
        tail = tuple((size, 1) for size in smaller)
        lines[whole + tail] = None
        if len(tail) > 1:
            lines[tail[-2:-1] + whole + tail[:-2] + tail[-1:]] = None
    return tuple(line for line in lines if block_count(line) > 1)


def _sums(
    total: int, count: int, sizes: tuple[int, ...], allowed: set[int]
) -> Iterator[tuple[int, ...]]:
    """`count` sizes below the largest, descending, that sum to `total`."""
    if count == 0:
        if total == 0:
            yield ()
    elif count == 1:
        if total in allowed and total < sizes[0]:
            yield (total,)
    else:
        for size in sizes[1:]:
            if size * count < total:
                return
            for rest in _sums(total - size, count - 1, sizes, allowed):
                if rest[0] <= size:
                    yield size, *rest
