"""Block-merge: average inside blocks, then one round in which every node hears every block."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.core.sequence import Sequence, rebuilt
from basegraph.topologies.transform.side_by_side import SideBySide

MOST_MERGED = 2**28
"""Up to this many nodes: whom each of a block's nodes hears is counted node by node."""


class BlockMerge(Sequence):
    """Blocks of b_1, ..., b_h nodes average inside; then every node receives b_j / n from block j.

    Between blocks i and j that is a transport by the north-west corner rule: the b_i b_j units
    stand in a line, every node of block i covers b_j of them and every node of block j covers b_i,
    and two nodes that share u units talk with weight u / n. The nodes of block i enter the line in
    turn, for its t-th other block from place t * floor(b_i / (h - 1)) on, so that those with more
    neighbors in one block have fewer in the next.

    Period max T(b_i) + 1; one round where all blocks are single nodes (the complete graph).
    """

    def __init__(
        self, blocks: SideBySide, spec: str, *, promised_degree: int | None = None
    ) -> None:
        self.blocks = blocks
        self.spec = spec
        self.promised_degree = promised_degree
        self.n = blocks.n
        self.period = blocks.period + 1
        self.symmetric = blocks.symmetric
        self.starts: list[int] = blocks.starts().tolist()
        self.sizes = tuple(np.diff(self.starts).tolist())
        self.max_degree = max(blocks.max_degree, merge_degree(self.sizes))

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt(self)

    def _round(self, phase: int) -> Round:
        return self._merge if phase == self.blocks.period else self.blocks.round(phase)

    @cached_property
    def _merge(self) -> Round:
        one, two, units = [], [], []
        for i, j in combinations(range(len(self.sizes)), 2):
            height, width = self.sizes[i], self.sizes[j]
            cuts = np.union1d(np.arange(height + 1) * width, np.arange(width + 1) * height)
            one.append(self.starts[i] + self._place(i, j, cuts[:-1] // width))
            two.append(self.starts[j] + self._place(j, i, cuts[:-1] // height))
            units.append(np.diff(cuts))
        receivers, senders = np.concatenate([*one, *two]), np.concatenate([*two, *one])
        shared = np.concatenate(units * 2)
        common = np.gcd(shared, self.n)
        origins = np.full(len(receivers), Origin.MERGE, dtype=np.uint8)
        return Round(self.n, receivers, senders, shared // common, self.n // common, origins)

    def _place(self, i: int, j: int, turn: Any) -> Any:
        """Which node of block i enters the line with block j at this turn."""
        return (turn + _first(self.sizes, i, j)) % self.sizes[i]

    def _neighbors(self, i: int, phase: int) -> dict[int, Fraction]:
        if phase < self.blocks.period:
            return self.blocks.neighbors(i, phase)
        own, place = self.blocks.block_of(i)
        height = self.sizes[own]
        heard = {}
        for other, width in enumerate(self.sizes):
            if other != own:
                turn = (place - _first(self.sizes, own, other)) % height
                low, high = turn * width, (turn + 1) * width
                for across in range(low // height, (high - 1) // height + 1):
                    units = min(high, (across + 1) * height) - max(low, across * height)
                    sender = self.starts[other] + self._place(other, own, across)
                    heard[sender] = Fraction(units, self.n)
        return heard


def _first(sizes: tuple[int, ...], i: int, j: int) -> int:
    """Which node of block i enters the line with block j first."""
    return (j - (j > i)) * (sizes[i] // (len(sizes) - 1))


@lru_cache(maxsize=2**16)
def merge_degree(sizes: tuple[int, ...]) -> int:
    """The largest number of neighbors in the merging round of these blocks.

    >>> merge_degree((4, 3, 3)), merge_degree((5, 4, 4)), merge_degree((9, 9))
    (3, 4, 1)
    """
    return max((int(_degrees(sizes, i).max()) for i in range(len(sizes))), default=0)


def _degrees(sizes: tuple[int, ...], i: int) -> IntArray:
    """The neighbors of each node of block i."""
    height = sizes[i]
    degrees = np.zeros(height, dtype=np.int64)
    for j, width in enumerate(sizes):
        if j != i:
            turn = (np.arange(height) - _first(sizes, i, j)) % height
            degrees += ((turn + 1) * width - 1) // height - turn * width // height + 1
    return degrees
