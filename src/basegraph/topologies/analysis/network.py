"""What a step of gossip costs on a network, by the number of nodes: a model, no measurement.

Every node hangs on a switch that never blocks by one link of a bandwidth B in each direction. A
message of s bytes takes α + s/B, with one latency α for the way and the software at both ends. What
a node sends to several neighbors in one round goes over its link one after another, what it hears
likewise, so a round takes α + δ·s/B, where δ is the most messages any node sends or hears in it;
the nodes start a round together. Sending and hearing do not hinder each other (`duplex`), or share
the link. Computation costs nothing, no packet is lost, and headers weigh nothing.

An all-reduce is modeled by its two usual forms: in a ring, 2(n-1) messages of s/n bytes one after
another, or by halving and doubling, 2 log₂ n messages that add up to 2(n-1)/n·s bytes, where n
beyond a power of two folds its surplus nodes in and out by one whole message each way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.analysis.message_bytes import (
    bytes_per_round,
    ring_all_reduce_vectors,
)
from basegraph.topologies.analysis.rates import reaches_average
from basegraph.topologies.core.integers import at_least, floor_log
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.two_states.sequence import TwoStateSequence

ALL_REDUCES = ("all-reduce", "all-reduce-halving")


@dataclass(frozen=True, kw_only=True)
class Network:
    """Equal links into one switch."""

    bandwidth: float
    """Bytes per second and direction."""
    latency: float
    """Seconds from one process to another, for a message without content."""
    duplex: bool = True
    """Whether a link carries its bandwidth in both directions at once."""

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise InvalidArgument("bandwidth", self.bandwidth, "must be a number above 0")
        if not self.latency >= 0:
            raise InvalidArgument("latency", self.latency, "must be a number ≥ 0")

    def round(self, sent: float, heard: float) -> float:
        """Seconds of a round in which the busiest node sends and hears so many bytes."""
        carried = max(sent, heard) if self.duplex else sent + heard
        return self.latency + carried / self.bandwidth if carried else 0.0


DEFAULT_NETWORK = Network(bandwidth=25e6, latency=5e-3)
"""200 Mbit/s and 5 ms: what `basegraph bench model` takes unless told otherwise."""


@dataclass(frozen=True)
class Cost:
    """What a topology costs: a step is one round of gossip, or one whole all-reduce."""

    rounds: int
    """Messages one after another until the exact average; a period where it is never reached."""
    exact: bool
    """Whether the average is reached exactly."""
    bytes_per_step: float
    """What the busiest node sends, over a period, in the mean."""
    seconds_per_step: float
    bytes_to_average: float | None
    seconds_to_average: float | None
    vectors_per_node: int = 1
    """2 for a two-state sequence, which takes more memory."""


@dataclass(frozen=True)
class Load:
    """What a topology or an all-reduce puts on the busiest links, in vectors of a model's size."""

    rounds: tuple[tuple[int, float, float], ...]
    """(how many rounds in a row, vectors a node sends at most, vectors one hears at most)."""
    exact: bool
    """Whether the average is reached exactly by these rounds."""
    sent: float
    """Vectors that the busiest node sends in all of them."""
    gossip: bool = True
    """Whether a step is one of the rounds; else it is all of them."""
    vectors_per_node: int = 1

    @property
    def length(self) -> int:
        """The number of rounds."""
        return sum(count for count, _, _ in self.rounds)

    def seconds(self, size: float, network: Network) -> list[tuple[int, float]]:
        """(how many steps, seconds of communication in each) for vectors of `size` bytes."""
        each = [
            (count, network.round(size * sent, size * heard)) for count, sent, heard in self.rounds
        ]
        return each if self.gossip else [(1, sum(count * spent for count, spent in each))]

    def cost(self, size: float, network: Network) -> Cost:
        """The cost of mixing vectors of `size` bytes."""
        each = self.seconds(size, network)
        steps = sum(count for count, _ in each)
        seconds = sum(count * spent for count, spent in each)
        return Cost(
            rounds=self.length,
            exact=self.exact,
            bytes_per_step=size * self.sent / steps,
            seconds_per_step=seconds / steps,
            bytes_to_average=size * self.sent if self.exact else None,
            seconds_to_average=seconds if self.exact else None,
            vectors_per_node=self.vectors_per_node,
        )


def cost(name: str, n: int, size: int, network: Network) -> Cost:
    """The cost of mixing vectors of `size` bytes, by a topology's spec or a form of all-reduce.

    >>> slow = Network(bandwidth=25e6, latency=5e-3)
    >>> round(cost("base:k=1", 8, 36_924_456, slow).seconds_per_step, 3)
    1.482
    >>> round(cost("all-reduce", 8, 36_924_456, slow).seconds_per_step, 3)
    2.655
    """
    return load(name, n).cost(size, network)


def load(name: str, n: int) -> Load:
    """What a topology, by its spec, or a form of all-reduce puts on the links of n nodes.

    >>> load("all-reduce-halving", 4).rounds
    ((2, 0.5, 0.5), (2, 0.25, 0.25))
    """
    if name in ALL_REDUCES:
        return _all_reduce(name, n)
    from basegraph.topologies.catalog import topology

    t = topology(name, n)
    if not isinstance(t, Sequence | TwoStateSequence):
        raise InvalidArgument("topology", name, "must have a period, the model knows no random one")
    return Load(
        rounds=tuple(
            (
                1,
                float(np.bincount(r.senders, minlength=1).max()),
                float(np.bincount(r.receivers, minlength=1).max()),
            )
            for r in t
        ),
        exact=reaches_average(t),
        sent=float(bytes_per_round(t, 1, itemsize=1).period),
        vectors_per_node=2 if isinstance(t, TwoStateSequence) else 1,
    )


def _all_reduce(name: str, n: int) -> Load:
    if name == "all-reduce":
        share = 1 / n
        return Load(
            ((2 * (n - 1), share, share),), True, float(ring_all_reduce_vectors(n)), gossip=False
        )
    levels = floor_log(n, 2)
    surplus = 2**levels < n
    pieces = [1 / 2**level for level in range(1, levels + 1)]
    folding = ((2, 1.0, 0.0),) if surplus else ()
    return Load(
        (*((2, piece, piece) for piece in pieces), *folding),
        True,
        2 * sum(pieces) + surplus,
        gossip=False,
    )


AVERAGES = {"gossip": "short:k=1", "two-state": "ceca", "all-reduce": "all-reduce"}
"""Ways to the exact average of all nodes' vectors: how -> what it costs, as `cost` is asked."""


def quickest_average(n: int, size: int, network: Network = DEFAULT_NETWORK) -> str:
    """Which way to the exact average of vectors of `size` bytes is the quickest, by the model.

    Args:
        n: Number of nodes.
        size: Bytes of a node's vector.
        network: What connects the nodes.

    Returns:
        "gossip" (one vector per node, `short:k=1`), "two-state" (`ceca`) or "all-reduce"; of equals
        the first of these, which takes the least memory.

    Raises:
        InvalidArgument: If n or the size is out of range.

    Example:
        >>> [quickest_average(n, 4_000) for n in (4, 5, 1000)]
        ['gossip', 'two-state', 'two-state']
        >>> quickest_average(25, 36_924_456)
        'all-reduce'

    """
    n, size = at_least(1, n=n), at_least(0, size=size)
    if n == 1:
        return "gossip"
    seconds = {
        how: cost(name, n, size, network).seconds_to_average for how, name in AVERAGES.items()
    }
    return min(seconds, key=lambda how: seconds[how] or 0.0)
