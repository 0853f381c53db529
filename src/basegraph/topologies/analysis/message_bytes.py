"""What a node sends: bytes in one round and in one period, and vectors in an all-reduce."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.two_states.sequence import TwoStateSequence


class MessageBytes(NamedTuple):
    """Bytes a node sends."""

    busiest: int
    """The most any node sends in any one round."""
    mean: float
    """In one round, over all nodes and all rounds of a period."""
    period: int
    """The most any node sends in a whole period."""


def bytes_per_round(
    topology: Sequence | TwoStateSequence, parameters: int, itemsize: int = 4
) -> MessageBytes:
    """What a node sends in one round when a model of `parameters` numbers is mixed.

    Args:
        topology: A topology with a period.
        parameters: How many numbers the model has.
        itemsize: Bytes of each.

    Returns:
        The bytes of the busiest node, of an average one, and of a whole period.

    Raises:
        InvalidArgument: If the topology has no period, or a number is out of range.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> bytes_per_round(topology("ring", n=25), parameters=1000)
        MessageBytes(busiest=8000, mean=8000.0, period=8000)

    """
    if not isinstance(topology, Sequence | TwoStateSequence):
        raise InvalidArgument("topology", topology, "must have a period to count its bytes")
    parameters, itemsize = at_least(0, parameters=parameters), at_least(1, itemsize=itemsize)
    sent = [np.bincount(r.senders, minlength=r.n) for r in topology]
    message = parameters * itemsize
    return MessageBytes(
        busiest=message * max(int(counts.max()) for counts in sent),
        mean=message * float(np.mean([counts.mean() for counts in sent])),
        period=message * int(np.sum(sent, axis=0).max()),
    )


def ring_all_reduce_vectors(n: int) -> Fraction:
    """Vectors of the model's size that a node sends in a ring all-reduce: 2(n-1)/n.

    Args:
        n: Number of nodes.

    Returns:
        The exact number; each of the 2(n-1) messages is an n-th of a vector.

    Example:
        >>> ring_all_reduce_vectors(5)
        Fraction(8, 5)

    """
    return Fraction(2 * (n - 1), n)
