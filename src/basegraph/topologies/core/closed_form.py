"""Topologies in closed form: a round is a few segments of nodes, each with one small rule.

A whole round evaluates each segment's rule on all its nodes at once; the question whom one node
hears evaluates it on that node alone. So a round costs O(arcs), a node O(k), and the two answers
cannot differ.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.core.sequence import Sequence, Topology, rebuilt


@dataclass(frozen=True)
class Segment:
    """The nodes start .. stop-1, which do the same kind of thing in one round."""

    start: int
    stop: int
    weights: tuple[Fraction, ...]
    """One per neighbor: every node of the segment has as many."""
    senders: Callable[[IntArray], IntArray]
    """(m,) nodes of the segment -> (m, len(weights)) senders; a node that names itself idles."""
    origin: Origin = Origin.UNSPECIFIED
    receivers: Callable[[int], Iterable[int]] | None = None
    """node -> the nodes of the segment that hear it, where that has a closed form too."""


Segments = Callable[[int], Items[Segment]]
"""phase -> the segments of that round, ascending and disjoint; a node in none of them idles."""


class _ClosedForm(Topology):
    def __init__(
        self,
        spec: str,
        n: int,
        segments: Segments,
        *,
        max_degree: int,
        symmetric: bool,
        promised_degree: int | None = None,
        note: str = "",
    ) -> None:
        self.spec = spec
        self.n = n
        self.segments = segments
        self.max_degree = max_degree
        self.symmetric = symmetric
        self.promised_degree = promised_degree
        self.note = note

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt(self)

    def _round(self, phase: int) -> Round:
        segments = self.segments(phase)
        arcs = sum((s.stop - s.start) * len(s.weights) for s in segments)
        # A round takes 33 bytes an arc, and as much again while it is made.
        refuse_beyond_memory(self.n, 66 * arcs, f"a round of {self.spec} has {arcs} arcs")
        parts = [_arcs(segment) for segment in segments]
        if not parts:
            return identity(self.n)
        return Round(self.n, *map(np.concatenate, zip(*parts, strict=True)))

    def _neighbors(self, i: int, phase: int) -> dict[int, Fraction]:
        for segment in self.segments(phase):
            if segment.start <= i < segment.stop:
                senders = segment.senders(np.array([i]))[0].tolist()
                heard = zip(senders, segment.weights, strict=True)
                return {sender: weight for sender, weight in heard if sender != i}
        return {}

    def _listeners(self, i: int, phase: int) -> tuple[int, ...]:
        if self.symmetric:
            return super()._listeners(i, phase)
        listeners: set[int] = set()
        for segment in self.segments(phase):
            if segment.receivers is None:
                return super()._listeners(i, phase)
            listeners.update(segment.receivers(i))
        return tuple(sorted(listeners - {i}))


class ClosedFormSequence(_ClosedForm, Sequence):
    """A periodic topology in closed form."""

    def __init__(
        self,
        spec: str,
        n: int,
        period: int,
        segments: Segments,
        *,
        max_degree: int,
        symmetric: bool,
        promised_degree: int | None = None,
        note: str = "",
    ) -> None:
        super().__init__(
            spec,
            n,
            segments,
            max_degree=max_degree,
            symmetric=symmetric,
            promised_degree=promised_degree,
            note=note,
        )
        self.period = period


class RandomTopology(_ClosedForm):
    """A topology in closed form that never repeats; its draws are a pure function of the step."""

    period = None


def identity(n: int) -> Round:
    """The round in which no node talks."""
    nothing = np.empty(0, dtype=np.int64)
    return Round(n, nothing, nothing, nothing, nothing)


def circulant(n: int, shifts: Mapping[int, Fraction]) -> list[Segment]:
    """Every node i hears i - u (mod n) with weight shifts[u], for each shift u in 1..n-1."""
    offsets = np.array(list(shifts), dtype=np.int64)
    return [
        Segment(
            0,
            n,
            tuple(shifts.values()),
            senders=lambda i: (i[:, None] - offsets) % n,
            receivers=lambda i: ((i + offsets) % n).tolist(),
        )
    ]


def cliques(
    start: int, stop: int, stride: int, size: int, origin: Origin = Origin.UNSPECIFIED
) -> list[Segment]:
    """The nodes of start .. stop-1 whose offsets differ in one digit only average completely.

    The digit is (offset // stride) mod size; every node hears the size - 1 others with weight
    1/size. Nothing, where a clique is one node.
    """

    def senders(i: IntArray) -> IntArray:
        digit = (i - start) // stride % size
        return (i - digit * stride)[:, None] + others(digit, size) * stride

    weights = (Fraction(1, size),) * (size - 1)
    return [Segment(start, stop, weights, senders, origin)] if size > 1 else []


def others(own: IntArray, size: int) -> IntArray:
    """(m,) numbers below size -> (m, size - 1): all the other numbers below size, ascending."""
    number = np.arange(size - 1)
    return number + (number >= own[:, None])


def refuse_beyond_memory(n: int, size: int, what: str) -> None:
    """Refuse n before allocating `size` bytes for `what`, if no memory of this machine holds them.

    >>> refuse_beyond_memory(2**61, 2**64, "a vector has 2**61 numbers")
    Traceback (most recent call last):
        ...
    basegraph.errors.InvalidArgument: n=...: a vector has 2**61 numbers, more than ...
    """
    if not hasattr(os, "sysconf"):
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > memory:
        raise InvalidArgument("n", n, f"{what}, more than this machine's memory holds")


def _arcs(segment: Segment) -> tuple[NDArray[Any], ...]:
    """Receivers, senders, numerators, denominators and origins of a segment's arcs."""
    nodes = np.arange(segment.start, segment.stop)
    shape = len(nodes), len(segment.weights)
    arcs = (
        np.broadcast_to(nodes[:, None], shape),
        segment.senders(nodes),
        np.broadcast_to([w.numerator for w in segment.weights], shape),
        np.broadcast_to([w.denominator for w in segment.weights], shape),
        np.broadcast_to(np.uint8(segment.origin), shape),
    )
    active = arcs[0] != arcs[1]
    return tuple(a.reshape(-1) if active.all() else a[active] for a in arcs)
