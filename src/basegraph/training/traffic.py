"""How many bytes a node sends, counted from the rounds of its topology."""

from __future__ import annotations

from basegraph.algorithms.method import Method
from basegraph.topologies.analysis.message_bytes import ring_all_reduce_vectors
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.sequence import AnyTopology
from basegraph.wires.links import LinkTable


class BytesSent:
    """What a node has sent by a step, in the mean over nodes.

    Rounds are counted when they are first asked for, and only once: those of a period, or of a
    random topology those that have been made.

    Args:
        topology: Whose rounds are made, one after another.
        method: What is sent in a round: its number of messages, or an all-reduce.
        local_steps: A round is made every so many steps.
        vector_bytes: Bytes of a message: the size of a model, or what a wire makes of it.
        first_bytes: Bytes of the first message of each link, where they are others.

    Example:
        >>> from basegraph.algorithms.catalog import algorithm
        >>> from basegraph.topologies.catalog import topology
        >>> sent = BytesSent(topology("base", n=5), algorithm("dsgdm"), 1, vector_bytes=100)
        >>> [sent.by(step) for step in (0, 1, 5, 10)]
        [0.0, 80.0, 400.0, 800.0]

    """

    def __init__(
        self,
        topology: AnyTopology,
        method: Method,
        local_steps: int,
        vector_bytes: int,
        first_bytes: int | None = None,
    ) -> None:
        self._topology = topology
        self._method = method
        self._local_steps = local_steps
        self._vector_bytes = vector_bytes
        self._more_at_first = 0 if first_bytes is None else first_bytes - vector_bytes
        self._links: LinkTable | None = None
        self._arcs = [0]  # arcs of the first so many rounds

    def by(self, step: int) -> float:
        """Bytes sent in the first `step` steps."""
        n, size = self._topology.n, self._vector_bytes
        if self._method.centralized:
            return float(step // self._local_steps * ring_all_reduce_vectors(n)) * size
        rounds = step // self._local_steps
        sent = self._arcs_of(rounds) / n * size * self._method.messages
        return sent + self._whole(rounds) / n * self._more_at_first

    def _whole(self, rounds: int) -> int:
        """Links that the first so many rounds use, all nodes together, if their first differs."""
        if not self._more_at_first:
            return 0
        if self._links is None:
            assert isinstance(self._topology, Topology)
            self._links = LinkTable(self._topology)
        return int(self._links.used_by(rounds).sum())

    def _arcs_of(self, rounds: int) -> int:
        """Arcs of the first so many rounds, all nodes together."""
        period = self._topology.period
        if period is None or rounds < period:
            return self._counted(rounds)
        return rounds // period * self._counted(period) + self._counted(rounds % period)

    def _counted(self, rounds: int) -> int:
        for index in range(len(self._arcs) - 1, rounds):
            self._arcs.append(self._arcs[-1] + len(self._topology.round(index).senders))
        return self._arcs[rounds]
