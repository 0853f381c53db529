"""The middle of block-mix from a layout: pairs that were searched for, cell by cell."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np

from basegraph.topologies.core.closed_form import identity
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.short.corner_middle import nodes_by_column
from basegraph.topologies.short.layout import Layout


class LaidMiddle:
    """A `Middle` of degree 1 from a `Layout`, which finds room where corners do not.

    Of the nodes that idle in the middle (`redundant`), two of the same column exchange, of
    different rows if possible, for a column's sum stays what it is; then two of the same row, which
    hold the same.
    """

    def __init__(self, layout: Layout, redundant: bool) -> None:
        self.layout = layout
        self.redundant = redundant
        self.n = int(layout.count.sum())

    def round(self) -> Round:
        """The middle round."""
        return self._round

    def neighbors(self, i: int) -> dict[int, Fraction]:
        """Whom node i hears in the middle round."""
        return self._round.neighbors(i)

    def by_column(self) -> IntArray:
        """Per place: the node that stands there."""
        return self._by_column

    def place(self, i: int) -> int:
        """The place of a node, counted column by column."""
        return int(self._places[i])

    def node(self, place: int) -> int:
        """The node at a place."""
        return int(self._by_column[place])

    @cached_property
    def _first(self) -> IntArray:
        """Per cell: its first node."""
        count = self.layout.count.ravel()
        return (np.cumsum(count) - count).reshape(self.layout.count.shape)

    @cached_property
    def _by_column(self) -> IntArray:
        return nodes_by_column(self._first, self.layout.count)

    @cached_property
    def _places(self) -> IntArray:
        return np.argsort(self._by_column)

    @cached_property
    def _round(self) -> Round:
        taken = np.zeros_like(self.layout.count)
        pairs = []
        for ends in self.layout.ends.tolist():
            cells = ends[:2], ends[2:]
            pairs.append([int(self._first[i, j] + taken[i, j]) for i, j in cells])
            for i, j in cells:
                taken[i, j] += 1
        weights = [Fraction(units, self.n) for units in self.layout.weights.tolist()]
        origins = [Origin.MIX] * len(pairs)
        if self.redundant:
            idle = self._idle_pairs(taken)
            pairs += idle
            weights += [Fraction(1, 2)] * len(idle)
            origins += [Origin.MIX_IDLE] * len(idle)
        if not pairs:
            return identity(self.n)
        one, two = np.array(pairs, dtype=np.int64).T
        numerators = np.array([w.numerator for w in weights] * 2, dtype=np.int64)
        denominators = np.array([w.denominator for w in weights] * 2, dtype=np.int64)
        ends = np.concatenate([one, two]), np.concatenate([two, one])
        return Round(self.n, *ends, numerators, denominators, np.array(origins * 2, dtype=np.uint8))

    def _idle_pairs(self, taken: IntArray) -> list[list[int]]:
        """Nodes without an edge, paired inside their columns, then inside their rows."""
        height, width = taken.shape
        idle: list[list[list[int]]] = [
            [
                list(range(first + used, first + count))
                for first, used, count in zip(*line, strict=True)
            ]
            for line in zip(
                self._first.tolist(), taken.tolist(), self.layout.count.tolist(), strict=True
            )
        ]
        pairs = []
        for j in range(width):
            pairs += _paired([idle[i][j] for i in range(height)])
        for i in range(height):
            pairs += _paired(idle[i])
        return pairs


def _paired(cells: list[list[int]]) -> list[list[int]]:
    """Take nodes out of these cells two by two, from the two that have most; all but one or none.

    >>> cells = [[1, 2, 3], [4], [5]]
    >>> _paired(cells), cells
    ([[1, 4], [2, 5]], [[3], [], []])
    """
    pairs = []
    while sum(map(len, cells)) > 1:
        fullest = sorted(range(len(cells)), key=lambda c: (-len(cells[c]), c))
        one = cells[fullest[0]].pop(0)
        other = fullest[1] if len(fullest) > 1 and cells[fullest[1]] else fullest[0]
        pairs.append([one, cells[other].pop(0)])
    return pairs
