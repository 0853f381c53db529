"""Block-mix with a middle that was laid out cell by cell."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np

from basegraph.topologies.core.closed_form import identity
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.short.corner_middle import BlockMix
from basegraph.topologies.short.layout import Layout
from basegraph.topologies.transform.side_by_side import SideBySide


class LaidMix(BlockMix):
    """Rows average inside, one middle round from a `Layout`, columns average inside; degree 1.

    Like `BlockMix`, it is exact because the middle moves b_i c_j / n from row i to column j; the
    layout finds room where corners do not. Of the nodes that idle in the middle (`redundant`), two
    of the same column exchange, of different rows if possible, for a column's sum stays what it
    is; then two of the same row, which hold the same.
    """

    def __init__(
        self,
        rows: SideBySide,
        columns: SideBySide,
        layout: Layout,
        redundant: bool,
        spec: str = "block-mix",
    ) -> None:
        super().__init__(rows, columns, 1, redundant, spec)
        self.layout = layout

    @cached_property
    def _first(self) -> IntArray:
        """Per cell: its first node."""
        before = np.cumsum(self.layout.count, axis=1) - self.layout.count
        return self.rows.starts()[:-1, None] + before

    @cached_property
    def _by_column(self) -> IntArray:
        """The nodes, column by column, in a column row by row."""
        first, count = self._first.T.ravel(), self.layout.count.T.ravel()
        return np.arange(self.n) + np.repeat(first - (np.cumsum(count) - count), count)

    @cached_property
    def _place(self) -> IntArray:
        """Per node: where it stands in that order."""
        return np.argsort(self._by_column)

    def place_of(self, i: int) -> int:
        """Where a node stands when the nodes are counted column by column."""
        return int(self._place[i])

    @cached_property
    def _middle_round(self) -> Round:
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

    def _round(self, phase: int) -> Round:
        return self._middle_round if phase == self.rows.period else super()._round(phase)

    def _neighbors(self, i: int, phase: int) -> dict[int, Fraction]:
        if phase < self.rows.period:
            return self.rows.neighbors(i, phase)
        if phase == self.rows.period:
            return self._middle_round.neighbors(i)
        heard = self.columns.neighbors(self.place_of(i), phase - self.rows.period - 1)
        return {int(self._by_column[j]): weight for j, weight in heard.items()}


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
