"""Partitions of nodes into a line of blocks: candidates, and which of them leave room."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from basegraph.topologies.core.round import IntArray
from basegraph.topologies.short.corner_middle import has_room
from basegraph.topologies.short.layout import Runs

PARTITIONS = 40
"""How many partitions, into rows and into columns, are laid out."""
THIRDS = 12
"""How many sizes of a third smaller block are tried."""


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


def leaves_room(rows: Runs, columns: Runs, n: int) -> bool:
    """Whether b c ≥ (d - 1) n for all rows b and columns c, which is sufficient for room.

    d is 1 at the corners of the grid of cells, 2 on its border and 4 inside.

    >>> leaves_room(((12, 1), (16, 2)), ((16, 2), (12, 1)), 44)
    True
    >>> leaves_room(((12, 1), (16, 3), (1, 1)), ((16, 3), (13, 1)), 61)
    False
    """

    def places(line: Runs) -> list[tuple[int, int]]:
        """(size, degree in the line) of every kind of block."""
        if block_count(line) == 1:
            return [(line[0][0], 0)]
        kinds = []
        for number, (size, copies) in enumerate(line):
            ends = (number == 0) + (number == len(line) - 1)
            kinds += [(size, 1)] * (ends > 0) + [(size, 2)] * (copies > ends)
        return kinds

    return all(
        b * c >= (degree * other - 1) * n
        for b, degree in places(rows)
        for c, other in places(columns)
    )


def lines_of_few(rest: int, copies: int, largest: int, sizes: tuple[int, ...]) -> tuple[Runs, ...]:
    """rest + copies * largest nodes as lines of the largest size and two or three of `sizes`.

    Two of these stand at the ends; a third, the largest of them, beside the last. Of each kind the
    line with the largest `one` is taken.

    >>> lines_of_few(5, 3, 16, (12, 10, 9))
    (((12, 1), (16, 2), (9, 1)),)
    """
    allowed = set(sizes)
    lines: list[Runs] = []
    for fewer in range(min(3, copies)):
        total, whole = rest + fewer * largest, (largest, copies - fewer)
        for third in (0, *sizes[:THIRDS]):
            for one in sizes:
                other = total - third - one
                if other <= one and (one <= third or not third) and other in allowed:
                    beside = ((third, 1),) if third else ()
                    lines.append(((one, 1), whole, *beside, (other, 1)))
                    break
    return tuple(sorted(lines, key=len))


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
