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


def cost(name: str, n: int, size: int, network: Network) -> Cost:
    """The cost of mixing vectors of `size` bytes, by a topology's spec or a form of all-reduce.

    >>> slow = Network(bandwidth=25e6, latency=5e-3)
    >>> round(cost("base:k=1", 8, 36_924_456, slow).seconds_per_step, 3)
    1.482
    >>> round(cost("all-reduce", 8, 36_924_456, slow).seconds_per_step, 3)
    2.655
    """
    if name in ALL_REDUCES:
        return _all_reduce(name, n, size, network)
    from basegraph.topologies.catalog import topology

    t = topology(name, n)
    if not isinstance(t, Sequence | TwoStateSequence):
        raise InvalidArgument("topology", name, "must have a period, the model knows no random one")
    seconds = sum(
        network.round(
            size * float(np.bincount(r.senders, minlength=1).max()),
            size * float(np.bincount(r.receivers, minlength=1).max()),
        )
        for r in t
    )
    busiest = float(bytes_per_round(t, size, itemsize=1).period)
    exact = reaches_average(t)
    return Cost(
        rounds=len(t),
        exact=exact,
        bytes_per_step=busiest / len(t),
        seconds_per_step=seconds / len(t),
        bytes_to_average=busiest if exact else None,
        seconds_to_average=seconds if exact else None,
        vectors_per_node=2 if isinstance(t, TwoStateSequence) else 1,
    )


def _all_reduce(name: str, n: int, size: int, network: Network) -> Cost:
    if name == "all-reduce":
        rounds = 2 * (n - 1)
        sent = float(size * ring_all_reduce_vectors(n))
        seconds = rounds * network.round(size / n, size / n)
    else:
        levels = floor_log(n, 2)
        surplus = 2**levels < n
        pieces = [size / 2**level for level in range(1, levels + 1)]
        rounds = 2 * (levels + surplus)
        sent = 2 * sum(pieces) + size * surplus
        folding = 2 * surplus * network.round(size, 0)
        seconds = 2 * sum(network.round(piece, piece) for piece in pieces) + folding
    return Cost(rounds, True, sent, seconds, sent, seconds)


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
