"""Whom one node hears and tells in every round of a topology."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.topologies.core.sequence import Topology


class Neighbors(NamedTuple):
    """Whom a node hears, with weights, and who hears it, in one round."""

    hears: tuple[tuple[int, float], ...]
    tells: tuple[int, ...]


class NeighborsOf:
    """The neighbors of one node, round by round; those of a period are looked up once."""

    def __init__(self, topology: Topology, node: int) -> None:
        self.topology = topology
        self.node = node
        self._known: dict[int, Neighbors] = {}

    def at(self, index: int) -> Neighbors:
        """The neighbors in round number `index`."""
        period = self.topology.period
        phase = index if period is None else index % period
        if phase not in self._known:
            if period is None:
                self._known.clear()  # a random round does not come again
            self._known[phase] = self._look_up(phase)
        return self._known[phase]

    def place(self, index: int) -> str:
        """Which round of the period that is, in words; nothing for a random topology."""
        period = self.topology.period
        return "" if period is None else f" (round {index % period} of {period})"

    def _look_up(self, phase: int) -> Neighbors:
        t = self.topology
        heard = sorted(t.neighbors(self.node, phase).items())
        hears = tuple((int(j), float(weight)) for j, weight in heard)
        if t.symmetric:
            return Neighbors(hears, tuple(j for j, _ in hears))
        r = t.round(phase)
        return Neighbors(hears, tuple(sorted(int(i) for i in r.receivers[r.senders == self.node])))
