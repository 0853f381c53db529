"""With whom a node exchanges at a step of the distributed engine."""

from __future__ import annotations

from typing import NamedTuple

from basegraph.algorithms.local_steps import communicates, round_index
from basegraph.topologies.core.phases import PerPhase
from basegraph.topologies.two_states.exchange import PairRule, pair_rule
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence


class Neighbors(NamedTuple):
    """Whom a node hears, with weights, and who hears it, in one round."""

    hears: tuple[tuple[int, float], ...]
    tells: tuple[int, ...]
    number: int
    """The round, counted on over periods."""
    place: str = ""
    """Which round of the period that is, in words; nothing for a random topology."""


class Schedule:
    """The neighbors of one node, step by step; those of a period are looked up once.

    Args:
        topology: Who talks to whom.
        node: The node.
        local_steps: Steps per exchange.
        start: The step at which round 0 is due: where the nodes have changed last.

    Example:
        >>> import basegraph as bg
        >>> schedule = Schedule(bg.topology("ring", n=5), node=0, local_steps=2)
        >>> schedule.at(0) is None, schedule.at(1).tells
        (True, (1, 4))

    """

    def __init__(
        self, topology: AnyTopology, node: int, local_steps: int = 1, start: int = 0
    ) -> None:
        self.topology = topology
        self.node = node
        self.local_steps = local_steps
        self.start = start
        self._neighbors = PerPhase(topology, lambda index: neighbors_of(node, topology, index))

    def communicates(self, step: int) -> bool:
        """Whether nodes exchange at a step; it is a local one otherwise."""
        return communicates(step - self.start, self.local_steps)

    def at(self, step: int) -> Neighbors | None:
        """The neighbors at a step, or None if it is a local one."""
        if not self.communicates(step):
            return None
        number, period = round_index(step - self.start, self.local_steps), self.topology.period
        place = "" if period is None else f" (round {number % period} of {period})"
        return self._neighbors(number)._replace(number=number, place=place)

    def pair_rule(self, step: int) -> PairRule | None:
        """What a node with two vectors does with what it hears; None at a local step."""
        neighbors = self.at(step)
        if neighbors is None or not isinstance(self.topology, TwoStateSequence):
            return None
        return pair_rule(self.topology, self.node, neighbors.number)


def neighbors_of(node: int, topology: AnyTopology, number: int) -> Neighbors:
    """Ask a topology for one node's neighbors in a round; the round itself is not built.

    With two vectors per node the weight is 1: mixing gives what was heard, for `PairRule`.
    """
    if isinstance(topology, TwoStateSequence):
        hears = tuple((j, 1.0) for j in topology.neighbors(node, number))
    else:
        heard = sorted(topology.neighbors(node, number).items())
        hears = tuple((int(j), float(weight)) for j, weight in heard)
    return Neighbors(hears, topology.listeners(node, number), number)
