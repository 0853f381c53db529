"""Plans: how a sequence for n nodes is put together, one kind of plan for each construction.

A plan describes one level. Its blocks are sequences of their own, which `build` asks for by their
number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.paper._base import base
from basegraph.topologies.short._block_merge import BlockMerge
from basegraph.topologies.short._block_mix import BlockMix
from basegraph.topologies.short._euclid import euclid
from basegraph.topologies.short.corner_middle import CornerMiddle, Corners
from basegraph.topologies.short.free_mix import FreeMix, free_mix
from basegraph.topologies.short.laid_middle import LaidMiddle
from basegraph.topologies.short.layout import Runs, lay_out, sizes_of
from basegraph.topologies.transform.product import Product
from basegraph.topologies.transform.side_by_side import SideBySide

Blocks = Callable[[int], Sequence]
"""Number of nodes -> the sequence that a block of so many runs."""


class Plan(Protocol):
    """How a sequence is put together."""

    @property
    def rounds(self) -> int:
        """Its period; 0 for a single node."""
        ...

    def build(self, spec: str, redundant: bool, blocks: Blocks) -> Sequence:
        """The sequence that this plan describes, under the name `spec`."""
        ...


@dataclass(frozen=True)
class BasePlan:
    """The Base-(k+1) Graph itself."""

    rounds: int
    n: int
    k: int

    def build(self, spec: str, redundant: bool, blocks: Blocks) -> Sequence:
        """The sequence that this plan describes, under the name `spec`."""
        return base(self.n, self.k, redundant, spec=spec)


@dataclass(frozen=True)
class EuclidPlan:
    """Mirrors of a circle."""

    rounds: int
    n: int

    def build(self, spec: str, redundant: bool, blocks: Blocks) -> Sequence:
        """The sequence that this plan describes, under the name `spec`."""
        return euclid(self.n, spec=spec)


@dataclass(frozen=True)
class ProductPlan:
    """Groups of `inner` nodes, then `outer` groups across."""

    rounds: int
    inner: int
    outer: int
    k: int

    def build(self, spec: str, redundant: bool, blocks: Blocks) -> Sequence:
        """The sequence that this plan describes, under the name `spec`."""
        return Product(blocks(self.inner), blocks(self.outer), spec, promised_degree=self.k)


@dataclass(frozen=True)
class MergePlan:
    """Blocks of these sizes, then one round in which every node hears every block."""

    rounds: int
    sizes: tuple[int, ...]
    k: int

    def build(self, spec: str, redundant: bool, blocks: Blocks) -> Sequence:
        """The sequence that this plan describes, under the name `spec`."""
        runs = tuple((size, 1) for size in self.sizes)
        return BlockMerge(_side_by_side(runs, redundant, blocks), spec, promised_degree=self.k)


@dataclass(frozen=True)
class MixPlan:
    """Rows, a middle round by corners, columns."""

    rounds: int
    rows: Runs
    columns: Runs
    k: int
    flipped: Corners = ()

    def build(self, spec: str, redundant: bool, blocks: Blocks) -> Sequence:
        """The sequence that this plan describes, under the name `spec`."""
        rows = _side_by_side(self.rows, redundant, blocks)
        columns = _side_by_side(self.columns, redundant, blocks)
        middle = CornerMiddle(rows, columns, redundant, self.flipped)
        return BlockMix(rows, columns, middle, self.k, spec)


@dataclass(frozen=True)
class LaidMixPlan:
    """Rows, a middle round that `lay_out` finds at this turn, columns; one neighbor a round."""

    rounds: int
    rows: Runs
    columns: Runs
    turn: int

    def build(self, spec: str, redundant: bool, blocks: Blocks) -> Sequence:
        """The sequence that this plan describes, under the name `spec`."""
        layout = lay_out(sizes_of(self.rows), sizes_of(self.columns), self.turn)
        assert layout is not None  # the table holds turns that succeed, which tests prove
        rows = _side_by_side(self.rows, redundant, blocks)
        columns = _side_by_side(self.columns, redundant, blocks)
        return BlockMix(rows, columns, LaidMiddle(layout, redundant), 1, spec)


@dataclass(frozen=True)
class FreeMixPlan:
    """Rows, middle rounds that were searched for pair by pair, columns."""

    rounds: int
    mix: FreeMix
    k: int

    def build(self, spec: str, redundant: bool, blocks: Blocks) -> Sequence:
        """The sequence that this plan describes, under the name `spec`."""
        return free_mix(self.mix, self.k, spec, redundant, blocks)


def _side_by_side(runs: Runs, redundant: bool, blocks: Blocks) -> SideBySide:
    built = {size: blocks(size) for size, _ in runs}
    return SideBySide([(built[size], copies) for size, copies in runs], redundant)
