"""A checksum of a topology: two ranks that have the same one agree on every round."""

from __future__ import annotations

import hashlib

import numpy as np

from basegraph.topologies.core.sequence import Topology


def digest(topology: Topology, rounds: int = 64) -> str:
    """A checksum of all arcs and weights of one period.

    Args:
        topology: What is summed up; its spec does not count.
        rounds: How many rounds, for a random topology.

    Returns:
        64 hexadecimal digits (SHA-256).

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> digest(topology("base", n=4)) == digest(topology("one-peer-hypercube", n=4))
        True

    """
    checksum = hashlib.sha256()
    for step in range(topology.period or rounds):
        r = topology.round(step)
        for part in (r.receivers, r.senders, r.numerators, r.denominators):
            checksum.update(np.ascontiguousarray(part).data)
    return checksum.hexdigest()
