"""How many bytes a node sends, counted from the rounds of its topology."""

from __future__ import annotations

from basegraph.algorithms.method import Method
from basegraph.topologies.analysis.message_bytes import ring_all_reduce_vectors
from basegraph.topologies.two_states.sequence import AnyTopology


class BytesSent:
    """What a node has sent by a step, in the mean over nodes.

    Rounds are counted when they are first asked for, and only once: those of a period, or of a
    random topology those that have been made.

    Args:
        topology: Whose rounds are made, one after another.
        method: What is sent in a round: its number of messages, or an all-reduce.
        local_steps: A round is made every so many steps.
        vector_bytes: Bytes of the vector that a message holds: the size of a model.

    Example:
        >>> from basegraph.algorithms.catalog import algorithm
        >>> from basegraph.topologies.catalog import topology
        >>> sent = BytesSent(topology("base", n=5), algorithm("dsgdm"), 1, vector_bytes=100)
        >>> [sent.by(step) for step in (0, 1, 5, 10)]
        [0.0, 80.0, 400.0, 800.0]

    """

    def __init__(
        self, topology: AnyTopology, method: Method, local_steps: int, vector_bytes: int
    ) -> None:
        self._topology = topology
        self._method = method
        self._local_steps = local_steps
        self._vector_bytes = vector_bytes
        self._arcs = [0]  # arcs of the first so many rounds

    def by(self, step: int) -> float:
        """Bytes sent in the first `step` steps."""
        n, size = self._topology.n, self._vector_bytes
        if self._method.centralized:
            return float(step // self._local_steps * ring_all_reduce_vectors(n)) * size
        return self._arcs_of(step // self._local_steps) / n * size * self._method.messages

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
