"""A checksum of a topology: two ranks that have the same one agree on every round."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from basegraph.topologies.core.round import Round
    from basegraph.topologies.core.sequence import Topology
    from basegraph.topologies.two_states.sequence import TwoStateSequence


def digest(topology: Topology | TwoStateSequence, rounds: int = 64) -> str:
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
        given: Any = topology.round(step)
        r: Round = getattr(given, "slots", given)  # of two vectors per node: the map on all 2n
        for part in (r.receivers, r.senders, r.numerators, r.denominators):
            checksum.update(np.ascontiguousarray(part).data)
    return checksum.hexdigest()
