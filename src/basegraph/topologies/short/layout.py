"""The middle of block-mix, cell by cell: whole nodes and pairs that share out the fractions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basegraph.topologies.core.round import IntArray

Runs = tuple[tuple[int, int], ...]
"""Blocks in a line, as (size, how many of it) one after the other."""

NOISE = (0, 1, 3)
"""How much chance counts in the choice of a pair, for turns 0 and 1, 2 and 3, 4 and 5, ..."""


@dataclass(frozen=True)
class Layout:
    """Which nodes stand where, and the edges of the middle round."""

    count: IntArray
    """Per cell (row, column): its nodes, those with an edge first, in the order of the edges."""
    ends: IntArray
    """Per edge: (row, column, row, column) of the two cells it joins."""
    weights: IntArray
    """Per edge, in units of 1/n; at most n/2."""


def sizes_of(runs: Runs) -> tuple[int, ...]:
    """The blocks' sizes, one by one.

    >>> sizes_of(((8, 2), (3, 1)))
    (8, 8, 3)
    """
    return tuple(size for size, copies in runs for _ in range(copies))


def lay_out(rows: tuple[int, ...], columns: tuple[int, ...], turn: int) -> Layout | None:
    """A middle that moves b_i c_j / n from every row i to every column j; None: not at this turn.

    The matrix b_i c_j / n has to become a sum of ones, each a node that keeps its value, and of
    pairs: a pair in the rows p, p' and the columns q, q' moves f from p to q and from p' to q', and
    1 - f from p to q' and from p' to q. Pair by pair: f is what the cell (p, q) has beyond a whole
    number, so that this cell is done, and a pair only takes from cells that are not. Sums of rows
    and columns stay whole all the while, and every pair leaves fewer fractions.

    Every row of b nodes must pair b times at most, so a line with little left to take from goes
    first. Of the pairs for it, one that does several cells at once, then one that leaves much.
    `turn` (0, 1, 2, ...) draws among what is left open, the same on every machine.

    >>> layout = lay_out((2, 1), (2, 1), 0)
    >>> layout.count.tolist(), layout.ends.tolist(), layout.weights.tolist()
    ([[1, 1], [1, 0]], [[1, 0, 0, 1]], [1])
    """
    n = sum(rows)
    mass = np.outer(rows, columns)
    pairs: list[tuple[int, ...]] = []
    while (mass % n).any():
        pair = _best_pair(mass, n, turn, len(pairs))
        if pair is None:
            return None
        p, q, over, down, f = pair
        mass[(p, over), (q, down)] -= f
        mass[(p, over), (down, q)] -= n - f
        # The pair stands in (p, down) and (over, q) and exchanges f, or the other way round.
        pairs.append((p, down, over, q, f) if 2 * f <= n else (p, q, over, down, n - f))
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 5)
    count = mass // n
    for end in (0, 2):
        np.add.at(count, (edges[:, end], edges[:, end + 1]), 1)
    return Layout(count, edges[:, :4], edges[:, 4])


def _best_pair(mass: IntArray, n: int, turn: int, step: int) -> tuple[int, ...] | None:
    """(p, q, p', q', f) for the most pressing row or column; None where nothing fits it."""
    height, width = mass.shape
    rest = mass % n
    fraction = rest > 0
    left = np.where(fraction, mass, 0)
    first_draw = (turn * 4096 + step) << 24

    lines = np.concatenate([left.sum(axis=1), left.sum(axis=0)]) // n
    cells = np.concatenate([fraction.sum(axis=1), fraction.sum(axis=0)])
    pressing = (lines if turn % 2 else lines - cells) * 1024
    pressing += _draws(first_draw + np.arange(height + width))
    line = int(np.argmin(np.where(cells > 0, pressing, np.iinfo(np.int64).max)))
    if line < height:
        q = np.flatnonzero(fraction[line])
        p = np.full_like(q, line)
    else:
        p = np.flatnonzero(fraction[:, line - height])
        q = np.full_like(p, line - height)

    # Axes: cell of the line, p', q'.
    f = rest[p, q][:, None, None]
    across = mass[None] - f
    beside = mass[p][:, None, :] - (n - f)
    below = mass[:, q].T[:, :, None] - (n - f)
    fits = fraction[None] & fraction[p][:, None, :] & fraction[:, q].T[:, :, None]
    fits &= (np.arange(height) != p[:, None])[:, :, None]
    fits &= (np.arange(width) != q[:, None])[:, None, :]
    smallest = np.minimum(np.minimum(across, beside), below)
    fits &= smallest >= 0
    if not fits.any():
        return None
    done = (across % n == 0) * 1 + (beside % n == 0) + (below % n == 0)
    number = (p * width + q)[:, None, None] * mass.size + np.arange(mass.size).reshape(mass.shape)
    chance = NOISE[turn // 2 % 3] * n * _draws(first_draw + 4096 + number)
    value = np.where(fits, (6 * n * done + smallest) * 1024 + chance, -1)
    cell, over, down = np.unravel_index(int(np.argmax(value)), value.shape)
    return int(p[cell]), int(q[cell]), int(over), int(down), int(f[cell, 0, 0])


def _draws(numbers: NDArray[Any]) -> IntArray:
    """Ten pseudo-random bits per number: the finaliser of splitmix64."""
    x = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return (x >> np.uint64(54)).astype(np.int64)
