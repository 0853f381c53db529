"""What both ends of a link know of each other, so that only differences need to be sent.

Node i keeps, for every neighbor j of the period, q_ij, what j knows of it, and q_ji, what it knows
of j. When they meet, each sends Q(x_i - q_ij), in few bytes, and both add it to q_ij. Then both
ends move by γw times the difference of what is known, and what is known moves with them:

    d = γw (q_ji - q_ij);  x_i ← x_i + d;  q_ij ← q_ij + d;  x_j ← x_j - d;  q_ji ← q_ji - d.

So the average over nodes is kept, and x_i - q_ij, what j does not know of i, changes by nothing but
gradients and other links. (CHOCO-SGD leaves q where it is, for one graph that stays; what is known
is then mixed again and again while x moves on.) The first message of a link is the whole vector.
"""

from __future__ import annotations

import numpy as np

from basegraph.topologies.core.sequence import Topology


class LinkTable:
    """The arcs of all rounds of a period, numbered, and when each is used first.

    Args:
        topology: Whose arcs they are; it must have a period.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> table = LinkTable(topology("base", n=5))
        >>> table.count, table.most_neighbors
        (12, 3)
        >>> [int(table.used_by(rounds).sum()) for rounds in range(5)]
        [0, 4, 8, 12, 12]

    """

    def __init__(self, topology: Topology) -> None:
        assert topology.period is not None
        self._period = topology.period
        numbers: dict[tuple[int, int], int] = {}
        self._first: list[int] = []  # the round in which an arc is used first
        self._ids = []
        for phase in range(topology.period):
            r = topology.round(phase)
            arcs = list(zip(r.senders.tolist(), r.receivers.tolist(), strict=True))
            for arc in arcs:
                if arc not in numbers:
                    numbers[arc] = len(numbers)
                    self._first.append(phase)
            self._ids.append(np.array([numbers[arc] for arc in arcs], dtype=np.int64))
        self.count = len(numbers)
        """Arcs of the whole period."""
        self._senders = [sender for sender, _ in numbers]
        self.most_neighbors = int(np.bincount(self._senders).max()) if numbers else 0
        """The most neighbors that any node has in a period: two vectors of memory for each."""

    def of(self, number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The arcs of a round, in the order of its own arrays."""
        return self._ids[number % self._period]

    def used_by(self, rounds: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which arcs the first so many rounds use: so many messages have been whole vectors."""
        return np.array(self._first, dtype=np.int64) < rounds

    def neighbors(self, node: int, rounds: int) -> int:
        """How many neighbors a node has told of itself in the first so many rounds."""
        return sum(
            sender == node and first < rounds
            for sender, first in zip(self._senders, self._first, strict=True)
        )
