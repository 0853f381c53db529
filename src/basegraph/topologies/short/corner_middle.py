"""The middle of block-mix by a formula: cells by rounding, one edge for each corner of them."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basegraph.topologies.core.closed_form import identity
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.transform.side_by_side import SideBySide

HALF = Fraction(1, 2)
Corners = tuple[tuple[int, int], ...]
"""Corners (a, b): where the first a rows and the first b columns end."""


class CornerMiddle:
    """A `Middle` in closed form, good for degree k where `has_room` says so.

    With P_a = b_1 + ... + b_a and Q_b = c_1 + ... + c_b, the first a rows and the first b columns
    share C_ab = P_a Q_b / n nodes, rounded to the nearest integer: that lays out the cells. What
    rounding left over, R_ab = P_a Q_b - n C_ab, one edge of weight |R_ab| / n mends, across the
    corner where rows a, a+1 and columns b, b+1 meet: between the cells (a, b+1) and (a+1, b) where
    R > 0, between (a, b) and (a+1, b+1) where R < 0. So a cell meets at most four edges, one for
    each of its corners. Its nodes take turns in serving them, and the partition is good for degree
    k if none of them gets too much (`has_room`). All weights in the middle are at most 1/2.

    Nodes are numbered row by row, in a row column by column. Of the nodes that idle in the middle
    (`redundant`), those of the same column in rows 1 and 2, 3 and 4, ... exchange: a column's sum
    stays what it is.

    Args:
        rows: The rows side by side.
        columns: The columns side by side, on the nodes counted column by column.
        redundant: Whether idle nodes exchange.
        flipped: Corners (a, b) at which C_ab is the second nearest integer instead of the nearest,
            so that |R_ab| / n is at least 1/2 there.

    """

    def __init__(
        self,
        rows: SideBySide,
        columns: SideBySide,
        redundant: bool,
        flipped: Corners = (),
    ) -> None:
        self.rows = rows
        self.columns = columns
        self.redundant = redundant
        self.flipped = frozenset(flipped)
        self.n = rows.n

    # -- the whole round ---------------------------------------------------------------------

    @cached_property
    def _grid(self) -> _Grid:
        return _Grid(self.rows.starts(), self.columns.starts(), self.n, tuple(self.flipped))

    def round(self) -> Round:
        """The middle round."""
        return self._grid.middle(self.redundant)

    @cached_property
    def _by_column(self) -> IntArray:
        return nodes_by_column(self._grid.first, self._grid.count)

    def by_column(self) -> IntArray:
        """Per place: the node that stands there."""
        return self._by_column

    # -- one node ----------------------------------------------------------------------------

    def place(self, i: int) -> int:
        """The place of a node, counted column by column."""
        row, column, offset = self._cell_of(i)
        return self.columns.start(column) + self._above(row, column) + offset

    def node(self, place: int) -> int:
        """The node at a place."""
        column, inside = self.columns.block_of(place)
        rows = range(self.rows.blocks)
        row = bisect_right(rows, inside, key=lambda a: self._above(a, column)) - 1
        return self.rows.start(row) + self._before(row, column) + inside - self._above(row, column)

    def neighbors(self, i: int) -> dict[int, Fraction]:
        """Whom node i hears in the middle round."""
        row, column, offset = self._cell_of(i)
        _, count, edges = self._cell(row, column)
        heard = {}
        for number, (a, b, rest) in enumerate(edges):
            if number % count == offset:
                first, size, back = self._cell(a, b)
                turn = [edge[:2] for edge in back].index((row, column))
                heard[first + turn % size] = Fraction(rest, self.n)
        partner = row ^ 1
        if offset >= len(edges) and self.redundant and partner < self.rows.blocks:
            first, size, back = self._cell(partner, column)
            number = offset - len(edges)
            if number < size - len(back):
                heard[first + len(back) + number] = HALF
        return heard

    def _cell_of(self, i: int) -> tuple[int, int, int]:
        """Row, column and number inside their cell of a node."""
        row, offset = self.rows.block_of(i)
        columns = range(self.columns.blocks)
        column = bisect_right(columns, offset, key=lambda b: self._before(row, b)) - 1
        return row, column, offset - self._before(row, column)

    def _corner(self, a: int, b: int) -> tuple[int, int]:
        """C_ab and R_ab."""
        whole, rest = rounded(self.rows.start(a), self.columns.start(b), self.n)
        if (a, b) in self.flipped:
            way = 1 if rest > 0 else -1
            return whole + way, rest - way * self.n
        return whole, rest

    def _before(self, row: int, column: int) -> int:
        """How many nodes of the row stand before the column."""
        return self._corner(row + 1, column)[0] - self._corner(row, column)[0]

    def _above(self, row: int, column: int) -> int:
        """How many nodes of the column stand above the row."""
        return self._corner(row, column + 1)[0] - self._corner(row, column)[0]

    def _cell(self, row: int, column: int) -> tuple[int, int, list[tuple[int, int, int]]]:
        """First node, number of nodes, and per edge of the cell (row, column, |R|) beyond it."""
        corners = [self._corner(row + a, column + b) for a in (0, 1) for b in (0, 1)]
        (c00, r00), (c01, r01), (c10, r10), (c11, r11) = corners
        beyond = [
            (row - 1, column - 1, max(-r00, 0)),
            (row - 1, column + 1, max(r01, 0)),
            (row + 1, column - 1, max(r10, 0)),
            (row + 1, column + 1, max(-r11, 0)),
        ]
        first = self.rows.start(row) + c10 - c00
        return first, c11 - c10 - c01 + c00, [edge for edge in beyond if edge[2]]


def nodes_by_column(first: IntArray, count: IntArray) -> IntArray:
    """The nodes column by column, in a column row by row.

    Args:
        first: (rows, columns): the first node of each cell.
        count: (rows, columns): its number of nodes.

    """
    first, count = first.T.ravel(), count.T.ravel()
    return np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)


def rounded(p: Any, q: Any, n: int) -> tuple[Any, Any]:
    """p q / n rounded to the nearest integer (a half: down), and what is left of p q; elementwise.

    >>> rounded(3, 3, 5), rounded(1, 3, 6)
    ((2, -1), (0, 3))
    """
    whole = (2 * p * q + n - 1) // (2 * n)
    return whole, p * q - n * whole


class _Grid:
    """All cells at once. Arrays end in (row, column), corners in (0 .. rows, 0 .. columns).

    `columns` may stack several partitions along axes of its own in front.
    """

    def __init__(self, rows: IntArray, columns: IntArray, n: int, flipped: Corners = ()) -> None:
        self.n = n
        corner, self.rest = rounded(rows[:, None], columns[..., None, :], n)
        if flipped:
            at = tuple(np.array(flipped).T)
            way = np.where(self.rest[at] > 0, 1, -1)
            corner[at] += way
            self.rest[at] -= way * n
        before = np.diff(corner, axis=-2)
        self.first: IntArray = rows[:-1, None] + before[..., :-1]
        self.count: IntArray = np.diff(before, axis=-1)
        rest = self.rest
        at_corners = [
            np.maximum(-rest[..., :-1, :-1], 0),
            np.maximum(rest[..., :-1, 1:], 0),
            np.maximum(rest[..., 1:, :-1], 0),
            np.maximum(-rest[..., 1:, 1:], 0),
        ]
        self.load: IntArray = sum(at_corners[1:], at_corners[0])
        present = [w > 0 for w in at_corners]
        self.turns = [sum(present[:c], np.zeros_like(self.count)) for c in range(5)]
        self.edges: IntArray = self.turns[4]

    def middle(self, redundant: bool) -> Round:
        """The middle round."""
        node = [self.first + turn % np.maximum(self.count, 1) for turn in self.turns[:4]]
        rest = self.rest[1:-1, 1:-1]
        up = rest > 0
        down = rest < 0
        one = np.concatenate([node[2][:-1, 1:][up], node[3][:-1, :-1][down]])
        two = np.concatenate([node[1][1:, :-1][up], node[0][1:, 1:][down]])
        weight = np.concatenate([rest[up], -rest[down]])
        origin = np.full(len(one), Origin.MIX, dtype=np.uint8)
        common = np.gcd(weight, self.n)
        parts: list[tuple[NDArray[Any], ...]] = [
            (one, two, weight // common, self.n // common, origin)
        ]
        if redundant:
            parts.append(self._idle())
        one, two, numerators, denominators, origin = map(np.concatenate, zip(*parts, strict=True))
        if not len(one):
            return identity(self.n)
        twice = [np.tile(a, 2) for a in (numerators, denominators, origin)]
        return Round(self.n, np.concatenate([one, two]), np.concatenate([two, one]), *twice)

    def _idle(self) -> tuple[NDArray[Any], ...]:
        used = np.minimum(self.edges, self.count)
        free, first = self.count - used, self.first + used
        pairs = len(free) // 2 * 2
        both = np.minimum(free[:pairs:2], free[1:pairs:2]).ravel()
        number = np.arange(both.sum()) - np.repeat(np.cumsum(both) - both, both)
        one, two = (np.repeat(first[side:pairs:2].ravel(), both) + number for side in (0, 1))
        origin = np.full(len(one), Origin.MIX_IDLE, dtype=np.uint8)
        return one, two, np.ones_like(one), np.full_like(one, 2), origin


def has_room_flipped(rows: IntArray, columns: IntArray, n: int, k: int, flipped: Corners) -> bool:
    """Whether `has_room` holds with these corners flipped.

    Edges may weigh more than 1/2 then, so the load of every node is added up, as its cell's nodes
    take turns.
    """
    grid = _Grid(rows, columns, n, flipped)
    if (grid.count < 0).any() or (grid.edges > k * grid.count).any():
        return False
    r = grid.middle(redundant=False)
    own = r.over_common_denominator()[2]
    return bool((own >= 0).all()) and r.degree <= k


def has_room(rows: IntArray, columns: IntArray, n: int, k: int) -> NDArray[np.bool_]:
    """Whether no node of any cell needs more than k neighbors or gives more than it has.

    Rows and columns by where they start (0, P_1, P_2, ..., n); `columns` may be several
    partitions, one per line. Every weight is at most 1/2, so two edges always fit a node; three
    or four only if they fit together.
    """
    grid = _Grid(rows, columns, n)
    served = np.maximum(grid.count, 0) * min(k, 2) >= grid.edges
    if k > 2:
        served |= (grid.count > 0) & (grid.edges <= k) & (grid.load <= n)
    return np.asarray(((grid.count >= 0) & served).all(axis=(-2, -1)))
