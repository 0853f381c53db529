"""Block-mix-block: average inside rows, mix once, average inside columns."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.core.sequence import Sequence, rebuilt
from basegraph.topologies.transform.side_by_side import SideBySide


class Middle(Protocol):
    """The round between rows and columns, and the order in which the columns count the nodes.

    Nodes are numbered row by row. A node's *place* is its number when they are counted column by
    column instead, which is how the sequence of the columns knows it.
    """

    def round(self) -> Round:
        """The middle round."""
        ...

    def neighbors(self, i: int) -> dict[int, Fraction]:
        """Whom node i hears in the middle round."""
        ...

    def by_column(self) -> IntArray:
        """Per place: the node that stands there."""
        ...

    def place(self, i: int) -> int:
        """The place of a node."""
        ...

    def node(self, place: int) -> int:
        """The node at a place."""
        ...


class BlockMix(Sequence):
    """The nodes in rows of b_1, b_2, ... and, at the same time, in columns of c_1, c_2, ...

    Rows average inside, one middle round, columns average inside. It is exact if the middle moves
    b_i c_j / n from row i to column j, for then every column holds its share of every row. Two
    kinds of middle do that: `CornerMiddle` by a formula, `LaidMiddle` from a layout that was
    searched for.

    Period max T(b_i) + 1 + max T(c_j).

    Args:
        rows: The rows side by side.
        columns: The columns side by side, on the nodes counted column by column.
        middle: The round between them.
        k: The degree that no round exceeds.
        spec: What the catalogue is asked for.

    """

    def __init__(
        self,
        rows: SideBySide,
        columns: SideBySide,
        middle: Middle,
        k: int,
        spec: str = "block-mix",
    ) -> None:
        self.rows = rows
        self.columns = columns
        self.middle = middle
        self.spec = spec
        self.promised_degree = k
        self.n = rows.n
        self.period = rows.period + 1 + columns.period
        self.symmetric = rows.symmetric and columns.symmetric

    @cached_property
    def max_degree(self) -> int:  # type: ignore[override]
        """The largest number of neighbors any node talks to in one round."""
        around = max(self.rows.max_degree, self.columns.max_degree)
        if around == self.promised_degree:  # the middle has no more
            return around
        return max(around, self.middle.round().degree)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt(self)

    def _round(self, phase: int) -> Round:
        if phase < self.rows.period:
            return self.rows.round(phase)
        if phase == self.rows.period:
            return self.middle.round()
        r = self.columns.round(phase - self.rows.period - 1)
        node = self.middle.by_column()
        ends = node[r.receivers], node[r.senders]
        return Round(self.n, *ends, r.numerators, r.denominators, r.origins)

    def _neighbors(self, i: int, phase: int) -> dict[int, Fraction]:
        if phase < self.rows.period:
            return self.rows.neighbors(i, phase)
        if phase == self.rows.period:
            return self.middle.neighbors(i)
        heard = self.columns.neighbors(self.middle.place(i), phase - self.rows.period - 1)
        return {self.middle.node(place): weight for place, weight in heard.items()}
