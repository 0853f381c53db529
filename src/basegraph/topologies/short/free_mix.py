"""Block-mix for few nodes whose middle was searched for: one or several rounds, pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.short._euclid import euclid
from basegraph.topologies.short.layout import Runs
from basegraph.topologies.transform.side_by_side import SideBySide

Edges = tuple[tuple[int, int, str], ...]
"""The edges of a round: two nodes and their weight, a fraction such as "3/14"."""


class FreeMix(NamedTuple):
    """Rows, middle rounds and columns, as free_mixes_k1.json and its siblings hold them.

    A *late* block postpones the last round of its mirrors (`euclid`), in which two mates average:
    the middle treats the two alike instead. In the columns it is the other way round: the block
    runs its mirrors in the opposite order without the first, and the middle leaves mates alike.
    """

    rows: Runs
    columns: Runs
    place: tuple[int, ...]
    """Per node, counted row by row: where it stands when they are counted column by column."""
    middle: tuple[Edges, ...]
    """The rounds between rows and columns."""
    late_rows: tuple[int, ...] = ()
    """Sizes of the rows that are late."""
    late_columns: tuple[int, ...] = ()

    def rounds(self, length: Callable[[int], int]) -> int:
        """The number of rounds, by the number of rounds that a block of some size takes."""
        stages = ((self.rows, self.late_rows), (self.columns, self.late_columns))
        return len(self.middle) + sum(
            max(length(size) - (size in late) for size, _ in runs) for runs, late in stages
        )


def free_mix(
    mix: FreeMix, k: int, spec: str, redundant: bool, blocks: Callable[[int], Sequence]
) -> Sequence:
    """The sequence with these rows, middle rounds and columns.

    It is exact if the middle M, with the averages E inside the blocks, makes E_C M E_R = J. That
    is not checked here: tests prove every entry of the tables with `verify`.

    Args:
        mix: What was searched for.
        k: The degree that no round exceeds.
        spec: What the catalogue is asked for.
        redundant: Whether blocks that have finished start again.
        blocks: Number of nodes -> the sequence that a block of so many runs.

    Example:
        >>> three = FreeMix(((2, 1), (1, 1)), ((2, 1), (1, 1)), (0, 2, 1), (((1, 2, "1/3"),),))
        >>> t = free_mix(three, 1, "three", True, lambda size: euclid(size))
        >>> t.period, t[1].neighbors(2)
        (3, {1: Fraction(1, 3)})

    """
    n = len(mix.place)
    rows = _stage(mix.rows, mix.late_rows, redundant, blocks, slice(None, -1), 1)
    columns = _stage(mix.columns, mix.late_columns, redundant, blocks, slice(1, None), -1)
    node = np.argsort(np.array(mix.place))
    rounds = [rows.round(step) for step in range(rows.period)]
    for edges in mix.middle:
        r = Round.from_edges(n, {(i, j): Fraction(w) for i, j, w in edges})
        origins = np.full(len(r.receivers), Origin.MIX, dtype=np.uint8)
        arcs = r.receivers, r.senders, r.numerators, r.denominators
        rounds.append(Round(n, *arcs, origins))
    for step in range(columns.period):
        r = columns.round(step)
        ends = node[r.receivers], node[r.senders]
        rounds.append(Round(n, *ends, r.numerators, r.denominators, r.origins))
    return Sequence(rounds, spec, promised_degree=k)


def _stage(
    runs: Runs,
    late: tuple[int, ...],
    redundant: bool,
    blocks: Callable[[int], Sequence],
    kept: slice,
    direction: int,
) -> SideBySide:
    """Blocks side by side, the late ones with the mirrors that are kept of this direction."""

    def block(size: int) -> Sequence:
        if size not in late:
            return blocks(size)
        mirrors = list(euclid(size))[::direction]
        return Sequence(mirrors[kept], f"late {size}", promised_degree=1)

    built = {size: block(size) for size, _ in runs}
    return SideBySide([(built[size], copies) for size, copies in runs], redundant)
