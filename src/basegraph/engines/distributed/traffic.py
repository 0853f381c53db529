"""How long a node waits, for whom, and which node is the straggler.

Sooner or later all nodes run at the pace of the slowest, most of them without being its neighbor:
node 0 waits for node 1, which waits for node 2, which computes. So every message says how long its
sender has waited so far. The slowest node is the one that hardly waits itself.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from basegraph.topologies.analysis.message_bytes import ring_all_reduce_vectors

LOG = logging.getLogger("basegraph")
STRAGGLER_ROUNDS = 100
"""Exchanges over which waiting is looked at."""
TOO_MUCH = 0.5
"""The share of the time above which a node that waits says so."""
HARDLY = 0.25
"""A neighbor that has waited less than this share of one's own waiting is what one waits for."""


@dataclass
class Traffic:
    """What this node has sent and how long it has waited."""

    bytes_sent: int = 0
    messages_sent: int = 0
    seconds_waited: float = 0.0
    seconds_waited_for: dict[int, float] = field(default_factory=dict)
    """By neighbor; one may be late because it waits itself."""

    def count_all_reduce(self, nbytes: int, n: int) -> None:
        """Count an all-reduce of a vector as the ring algorithm's messages; backends may differ."""
        self.messages_sent += 2 * (n - 1)
        self.bytes_sent += int(ring_all_reduce_vectors(n) * nbytes)

    def wait_for(self, node: int, seconds: float) -> None:
        """Count time spent waiting for a node."""
        self.seconds_waited_for[node] = self.seconds_waited_for.get(node, 0.0) + seconds


class Straggler:
    """Finds the neighbor that slows this node down, and warns about it once."""

    def __init__(self, node: int, traffic: Traffic) -> None:
        self._node = node
        self._traffic = traffic
        self._named: set[int] = set()
        self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._began = time.perf_counter()
        self._waited = self._traffic.seconds_waited
        self._seen: dict[int, list[tuple[float, float]]] = {}  # (own, theirs): first and last

    def heard(self, neighbor: int, own: float, theirs: float) -> None:
        """How long this node and a neighbor had waited in all before an exchange."""
        now = (own, theirs)
        self._seen[neighbor] = [self._seen.get(neighbor, [now])[0], now]

    def exchanged(self) -> None:
        """After an exchange: every so often, see who is waited for."""
        self._count += 1
        if self._count < STRAGGLER_ROUNDS:
            return
        elapsed = time.perf_counter() - self._began
        waited = self._traffic.seconds_waited - self._waited
        slow = slowest(self._seen)
        if waited > TOO_MUCH * elapsed and slow is not None and slow not in self._named:
            self._named.add(slow)
            LOG.warning(
                "node %d: %.0f %% of the time of the last %d exchanges was spent waiting, and node "
                "%d hardly waits: it is the one that the others wait for",
                *(self._node, 100 * waited / elapsed, self._count, slow),
            )
        self._begin()


def slowest(seen: dict[int, list[tuple[float, float]]]) -> int | None:
    """The neighbor that has waited least beside this node, if that is hardly at all.

    >>> slowest({1: [(0.0, 0.0), (8.0, 7.5)], 2: [(1.0, 0.2), (9.0, 0.3)]})
    2
    """
    shares = {
        neighbor: (last[1] - first[1]) / (last[0] - first[0])
        for neighbor, (first, last) in seen.items()
        if last[0] > first[0]
    }
    least = min(shares, key=shares.__getitem__, default=None)
    return least if least is not None and shares[least] < HARDLY else None
