"""Topologies of one's own, checked before anything relies on them."""

from __future__ import annotations

from basegraph.errors import InvalidArgument
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence
from basegraph.topologies.verify.rounds import check_rounds
from basegraph.topologies.verify.two_states import check_two_state_rounds

SAMPLED = 64
"""Rounds that are checked of a topology without a period."""
_ATTRIBUTES = ("spec", "n", "period", "max_degree", "symmetric")


def require_rounds(topology: AnyTopology) -> None:
    """Refuse a topology whose rounds would not keep the average: a period, or its first rounds.

    Args:
        topology: The topology.

    Raises:
        InvalidArgument: It lacks what every topology has.
        InvalidRound: A round is not doubly stochastic, or not what the topology claims.

    Example:
        >>> from basegraph.topologies.core import Round, Sequence
        >>> require_rounds(Sequence([Round.from_arcs(3, {(0, 1): "1/2", (1, 2): "1/2"})]))
        Traceback (most recent call last):
            ...
        basegraph.errors.InvalidRound: custom, round 0: not doubly stochastic: column 0 sums to 1/2

    """
    missing = [name for name in _ATTRIBUTES if not hasattr(topology, name)]
    if missing:
        kind = type(topology).__name__
        raise InvalidArgument("topology", kind, f"must set {', '.join(missing)}, as any Topology")
    if isinstance(topology, TwoStateSequence):
        check_two_state_rounds(topology)
    else:
        check_rounds(topology, topology.period or SAMPLED)
