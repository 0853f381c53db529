"""How long a training step takes on a network, with what overlaps: a model, no measurement.

A step computes for T seconds: a forward pass (a third), a backward pass (two thirds). What is
communicated takes what `network.py` says.

- *DDP* all-reduces the gradients in buckets of 25 MiB, its default. A bucket can go as soon as the
  backward pass has filled it, the buckets being filled evenly; one goes at a time. So all but the
  last bucket may hide behind the backward pass.
- *combine-then-adapt*, x ← mix(x) - ηd: the models of the last step are exchanged while the next
  gradient is computed, all of it: a step takes the longer of T and its round.
- *adapt-then-combine*, x ← mix(x - ηd): the exchange begins when the step has been computed and
  nothing hides it: T and its round one after the other.

Update, packing and mixing cost nothing here, and sending does not slow down computing.
"""

from __future__ import annotations

from math import ceil

from basegraph.topologies.analysis.network import Load, Network

ORDERS = ("combine-then-adapt", "adapt-then-combine")
BACKWARD = 2 / 3
"""The share of the backward pass in what a step computes."""
BUCKET = 25 * 2**20
"""Bytes of a bucket of DDP's, unless told otherwise."""


def gossip_step(load: Load, size: int, network: Network, computing: float, order: str) -> float:
    """Seconds of a step with gossip, in the mean over a period.

    >>> from basegraph.topologies.analysis.network import load
    >>> slow = Network(bandwidth=25e6, latency=5e-3)
    >>> gossip_step(load("ring", 8), 10**6, slow, 0.1, "combine-then-adapt")
    0.1
    >>> round(gossip_step(load("ring", 8), 10**6, slow, 0.1, "adapt-then-combine"), 3)
    0.185
    """
    each = load.seconds(size, network)
    if order == "combine-then-adapt":
        spent = sum(count * max(computing, seconds) for count, seconds in each)
    else:
        spent = sum(count * (computing + seconds) for count, seconds in each)
    return spent / sum(count for count, _ in each)


def ddp_step(load: Load, size: int, network: Network, computing: float) -> float:
    """Seconds of a step with DDP, which all-reduces the gradients.

    >>> from basegraph.topologies.analysis.network import load
    >>> slow = Network(bandwidth=25e6, latency=5e-3)
    >>> round(ddp_step(load("all-reduce", 8), 10**6, slow, 0.1), 3)
    0.24
    """
    buckets = _buckets(size)
    each = ddp_exchange(load, size, network) / buckets
    backward = BACKWARD * computing
    last_alone = backward + each
    one_after_another = backward / buckets + buckets * each
    return computing - backward + max(last_alone, one_after_another)


def ddp_exchange(load: Load, size: int, network: Network) -> float:
    """Seconds of DDP's communication: all buckets, each of which waits for the latency anew."""
    buckets = _buckets(size)
    ((_, each),) = load.seconds(size / buckets, network)
    return buckets * each


def _buckets(size: int) -> int:
    return max(1, ceil(size / BUCKET))
