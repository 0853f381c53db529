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
from typing import Any

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.analysis.message_bytes import (
    bytes_per_round,
    ring_all_reduce_vectors,
)
from basegraph.topologies.analysis.rates import reaches_average
from basegraph.topologies.catalog import topology
from basegraph.topologies.core.integers import floor_log
from basegraph.topologies.core.sequence import Sequence

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

    def round(self, sent: float, heard: float) -> float:
        """Seconds of a round in which the busiest node sends and hears so many bytes."""
        carried = max(sent, heard) if self.duplex else sent + heard
        return self.latency + carried / self.bandwidth if carried else 0.0


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
    t = topology(name, n)
    if not isinstance(t, Sequence):
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


def rows(names: list[str], n: int, size: int, network: Network) -> list[dict[str, Any]]:
    """The costs of all names that are defined for n."""
    table: list[dict[str, Any]] = []
    for name in names:
        try:
            total = cost(name, n, size, network)
        except InvalidArgument as refusal:
            if refusal.argument not in ("n", "k"):
                raise
            continue
        table.append({"topology": name, "n": n, **vars(total)})
    return table


def thinned(sizes: list[int], most: int) -> list[int]:
    """At most so many of the sizes, both ends among them, even on a logarithmic scale.

    >>> thinned(list(range(2, 1001)), 5)
    [2, 9, 45, 211, 1000]
    """
    if len(sizes) <= most:
        return sizes
    ordered = np.array(sorted(sizes))
    wanted = np.geomspace(ordered[0], ordered[-1], most)
    nearest = np.abs(ordered[:, None] - wanted).argmin(axis=0)
    return sorted({int(n) for n in ordered[nearest]})
