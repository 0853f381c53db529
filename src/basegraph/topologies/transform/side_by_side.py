"""Sequences side by side: disjoint blocks of nodes, each running its own."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basegraph.topologies.core.closed_form import identity
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.transform.copies import tiled
from basegraph.topologies.two_states.sequence import refuse_two_states


class SideBySide(Sequence):
    """Runs of equal blocks, one after the other: (sequence, copies) for each run.

    As long as the longest of them, and of no rounds where every block is a single node. A block
    that has finished starts again, which changes nothing any more (all its nodes agree) but the
    disagreement that training adds meanwhile; without `redundant` it idles.
    """

    def __init__(self, runs: Iterable[tuple[Sequence, int]], redundant: bool) -> None:
        self.runs = tuple(runs)
        for block, _ in self.runs:
            refuse_two_states("runs", block, "blocks are of n × n rounds, as those of short")
        self.redundant = redundant
        self.blocks = sum(copies for _, copies in self.runs)
        self.n = sum(block.n * copies for block, copies in self.runs)
        self.spec = "side by side"
        self.period = max((block.period for block, _ in self.runs if block.n > 1), default=0)
        self.max_degree = max(block.max_degree for block, _ in self.runs)
        self.symmetric = all(block.symmetric for block, _ in self.runs)

    def start(self, number: int) -> int:
        """The first node of a block; n for the number of blocks."""
        first = 0
        for block, copies in self.runs:
            if number <= copies:
                return first + number * block.n
            first, number = first + copies * block.n, number - copies
        return first

    def starts(self) -> IntArray:
        """The first node of every block, and n."""
        sizes = np.repeat([b.n for b, _ in self.runs], [copies for _, copies in self.runs])
        return np.concatenate([[0], np.cumsum(sizes)])

    def block_of(self, i: int) -> tuple[int, int]:
        """(number of its block, place in it) of a node."""
        number = 0
        for block, copies in self.runs:
            if i < copies * block.n:
                return number + i // block.n, i % block.n
            i, number = i - copies * block.n, number + copies
        raise IndexError(i)

    def _is_idle(self, block: Sequence, phase: int) -> bool:
        return block.n == 1 or (phase >= block.period and not self.redundant)

    def _round(self, phase: int) -> Round:
        parts: list[tuple[NDArray[Any], ...]] = []
        first = 0
        for block, copies in self.runs:
            if not self._is_idle(block, phase):
                r = block.round(phase)
                r = tiled(r, copies) if copies > 1 else r
                ends = r.receivers + first, r.senders + first
                parts.append((*ends, r.numerators, r.denominators, r.origins))
            first += copies * block.n
        if not parts:
            return identity(self.n)
        return Round(self.n, *map(np.concatenate, zip(*parts, strict=True)))

    def _neighbors(self, i: int, phase: int) -> dict[int, Fraction]:
        first = 0
        for block, copies in self.runs:
            if i < first + copies * block.n:
                if self._is_idle(block, phase):
                    return {}
                place = (i - first) % block.n
                heard = block.neighbors(place, phase)
                return {i - place + sender: weight for sender, weight in heard.items()}
            first += copies * block.n
        raise IndexError(i)
