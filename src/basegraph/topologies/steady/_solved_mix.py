"""Block-mix for few nodes with every node busy in the middle: pairs first, their weights solved."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.core.tables import load_table
from basegraph.topologies.short._euclid import by_mirrors, mirrors
from basegraph.topologies.short._short import short
from basegraph.topologies.short.planner import default_planner
from basegraph.topologies.short.plans import EuclidPlan
from basegraph.topologies.steady._free_mirrors import rename
from basegraph.topologies.transform.side_by_side import SideBySide

HALF = Fraction(1, 2)
AIM = Fraction(23, 40)
"""What the weights of the middle come near to: a little above 1/2, which was calmer than 1/2."""


class MixParameters(NamedTuple):
    """What a solved mix leaves free; it is exact wherever the weights can be solved."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    """Block sizes. Nodes are numbered row by row."""
    place: tuple[int, ...]
    """Per node: where it stands when the nodes are counted column by column."""
    mate: tuple[int, ...]
    """Per node: with whom it exchanges in the middle; itself: it idles."""


@cache
def mix_table() -> dict[int, MixParameters]:
    """The parameters that keep disagreement small, by number of nodes (mixes.json)."""
    entries = load_table("basegraph.topologies.steady", "mixes.json")
    return {n: MixParameters(**entry) for n, entry in entries.items()}


def solved_mix(middle: MixParameters, spec: str) -> Sequence:
    """Rows average inside, one middle round, columns average inside.

    Exact if the middle moves b_i c_j / n from row i to column j (see `BlockMix`). With N_ij nodes
    in cell (i, j), a pair of weight w in the cells (p, q) and (p', q') moves w from there to
    (p, q') and (p', q): linear equations for the weights of given pairs. Of their solutions the
    one nearest to `AIM` everywhere (least squares) is taken, in exact rationals.

    Args:
        middle: The blocks, and who exchanges with whom in the middle.
        spec: What the sequence is called.

    Returns:
        The sequence, of one neighbor a round.

    Raises:
        InvalidArgument: If the weights of the middle's pairs cannot be solved within (0, 1].

    Example:
        >>> t = solved_mix(MixParameters((2, 1), (2, 1), (0, 2, 1), (0, 2, 1)), "three nodes")
        >>> t[1].neighbors(1)
        {2: Fraction(1, 3)}

    """
    n = sum(middle.rows)
    weights = middle_weights(middle)
    if weights is None or not all(0 < w <= 1 for w in weights.values()):
        raise InvalidArgument("mate", middle.mate, "must be pairs whose weights can be solved")
    rows, columns = map(far_blocks, (middle.rows, middle.columns))
    node = np.argsort(np.array(middle.place))
    placed = [
        Round(n, node[r.receivers], node[r.senders], r.numerators, r.denominators, r.origins)
        for r in columns
    ]
    rounds = [*rows, Round.from_edges(n, weights), *placed]
    return Sequence(rounds, spec, promised_degree=1)


def far_blocks(sizes: tuple[int, ...]) -> SideBySide:
    """Blocks that run `short`; mirrors of an even number of nodes with weights of at least 1/2.

    Renaming turns a weight w into 1 - w; values that travel far meet more of the others.

    >>> far_blocks((6,))[1].neighbors(0)
    {4: Fraction(2, 3)}
    """

    def block(size: int) -> Sequence:
        if size % 2 or not isinstance(default_planner().best_plan(size, 1), EuclidPlan):
            return short(size)
        rounds = list(mirrors(size // 2))
        for number in range(len(rounds)):
            if rounds[number][1] < HALF:
                rename(rounds, number)
        return by_mirrors("far", size, tuple((s % (size // 2), w) for s, w in rounds))

    return SideBySide([(block(size), 1) for size in sizes], redundant=True)


def middle_weights(middle: MixParameters) -> dict[tuple[int, int], Fraction] | None:
    """Per pair: its weight, the nearest to `AIM` that all conditions allow; None where none do."""
    row, column = (
        np.repeat(np.arange(len(sizes)), sizes) for sizes in (middle.rows, middle.columns)
    )
    cells = [(int(row[i]), int(column[place])) for i, place in enumerate(middle.place)]
    pairs = [(i, j) for i, j in enumerate(middle.mate) if i < j]
    n = len(cells)
    # What a weight of `AIM` for all leaves to be moved into each cell, and what each pair can move.
    left = {
        (p, q): [Fraction(b * c, n)] + [Fraction(0)] * len(pairs)
        for p, b in enumerate(middle.rows)
        for q, c in enumerate(middle.columns)
    }
    for cell in cells:
        left[cell][0] -= 1
    for number, (i, j) in enumerate(pairs, start=1):
        (p, q), (over, down) = cells[i], cells[j]
        for cell, moved in (((p, q), -1), ((over, down), -1), ((p, down), 1), ((over, q), 1)):
            left[cell][number] += moved
            left[cell][0] -= AIM * moved
    conditions = [line[1:] for line in left.values()]
    gram = [[_inner(a, b) for b in conditions] for a in conditions]
    share = _solution(gram, [line[0] for line in left.values()])
    if share is None:
        return None
    return {
        pair: AIM + _inner(share, [condition[number] for condition in conditions])
        for number, pair in enumerate(pairs)
    }


def _inner(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), Fraction(0))


def _solution(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """One solution of a linear system, free unknowns at 0; None where there is none.

    >>> _solution([[Fraction(1), Fraction(1)], [Fraction(2), Fraction(2)]], [Fraction(3)] * 2)
    >>> _solution([[Fraction(1), Fraction(1)]], [Fraction(3)])
    [Fraction(3, 1), Fraction(0, 1)]
    """
    lines = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    unknowns = len(matrix[0])
    pivots: list[tuple[int, list[Fraction]]] = []
    for unknown in range(unknowns):
        pivot = next((line for line in lines if line[unknown]), None)
        if pivot is None:
            continue
        lines.remove(pivot)
        scaled = [value / pivot[unknown] for value in pivot]
        lines = [_without(line, scaled, unknown) for line in lines]
        pivots = [(u, _without(line, scaled, unknown)) for u, line in pivots] + [(unknown, scaled)]
    if any(line[-1] for line in lines):
        return None
    values = [Fraction(0)] * unknowns
    for unknown, line in pivots:
        values[unknown] = line[-1]
    return values


def _without(line: list[Fraction], pivot: list[Fraction], unknown: int) -> list[Fraction]:
    factor = line[unknown]
    return [a - factor * b for a, b in zip(line, pivot, strict=True)] if factor else line
