"""Renaming nodes so that no node gives away more than it keeps."""

from __future__ import annotations

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.core.sequence import Sequence, Topology
from basegraph.topologies.two_states.sequence import TwoStateSequence, refuse_two_states


def stay_home(topology: Topology | TwoStateSequence) -> Sequence:
    """The same averaging with all pair weights at most 1/2, for sequences of degree 1.

    A pair of weight w > 1/2 nearly swaps its values. If the two nodes keep them instead (weight
    1 - w) and swap their names in all later rounds of the period, every value is still computed,
    at the other node: the mixing matrices of a period multiply to the same up to the order of
    rows, and J/n stays J/n. A pair of weight 1 is no exchange any more. Why: in training, the
    parameters travel with large weights while momentum and data stay where they are.

    The whole period is built, O(n) a round.

    Args:
        topology: A sequence that pairs nodes.

    Returns:
        A sequence of as many rounds.

    Raises:
        InvalidArgument: If the topology has no period, or a node talks to more than one other.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> base = topology("base", n=5)
        >>> base.neighbors(4, 2), stay_home(base).neighbors(4, 2)
        ({0: Fraction(4, 5)}, {0: Fraction(1, 5)})

    """
    refuse_two_states("topology", topology, "only pairs that mix one vector can stay at home")
    if not isinstance(topology, Sequence):
        raise InvalidArgument("topology", topology, "must repeat, or there is no renaming")
    if topology.max_degree > 1 or not topology.symmetric:
        raise InvalidArgument("topology", topology, "must pair nodes: degree 1, symmetric")
    home = np.arange(topology.n)  # where the value that node i would hold is kept
    rounds = []
    for current in topology:
        stayed, home = _renamed(current, home)
        rounds.append(stayed)
    return Sequence(rounds, f"{topology.spec}{',' if ':' in topology.spec else ':'}home=true")


def _renamed(r: Round, home: IntArray) -> tuple[Round, IntArray]:
    """The round among the nodes' homes, and the homes after it."""
    swaps = 2 * r.numerators > r.denominators
    numerators = np.where(swaps, r.denominators - r.numerators, r.numerators)
    talks = numerators > 0
    ends = home[r.receivers][talks], home[r.senders][talks]
    later = home.copy()
    later[r.receivers[swaps]] = home[r.senders[swaps]]
    weights = numerators[talks], r.denominators[talks]
    return Round(r.n, *ends, *weights, r.origins[talks]), later
