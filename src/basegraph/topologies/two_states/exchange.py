"""What a two-state round asks of a node in training, where one vector is sent and both are moved.

In a round every node sends one of its vectors, x or y, all of them the same. Training keeps the one
that is sent in front: a node holds (v, w), v being what it sends in this round. It hears v' and
moves both, v ← v + a (v' - v) and w ← w + b (v' - w); and where the next round sends the other
vector, the two change places.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.arrays import FloatArray, IntArray
from basegraph.topologies.two_states.sequence import TwoStateSequence


class PairRule(NamedTuple):
    """How one node combines what it hears with its two vectors."""

    sender: int | None
    """Whom it hears; None: no node."""
    sent: float
    """a, the weight in the vector that it has sent."""
    other: float
    """b, the weight in its other vector."""
    swaps: bool
    """Whether the next round sends the other vector."""

    def __call__(self, v: Any, w: Any, heard: Any) -> tuple[Any, Any]:
        """The two vectors after the round, the one that is sent next in front."""
        v, w = v + self.sent * (heard - v), w + self.other * (heard - w)
        return (w, v) if self.swaps else (v, w)


def pair_rule(topology: TwoStateSequence, i: int, step: int) -> PairRule:
    """What one node does at a step; O(1), no round is built.

    Args:
        topology: The sequence.
        i: The node.
        step: The step.

    Raises:
        InvalidArgument: If the node hears more than one other.

    Example:
        >>> from basegraph.topologies.two_states import ceca
        >>> [pair_rule(ceca(6), 0, step) for step in range(3)][1:]
        [PairRule(sender=5, sent=0.5, other=0.333..., swaps=True), PairRule(sender=3, sent=0.5, ...]

    """
    now = topology.neighbors(i, step)
    then = topology.neighbors(i, step + 1)
    if len(now) > 1:
        raise InvalidArgument("topology", topology.spec, "must have one message in per round")
    if not now:
        return PairRule(None, 0.0, 0.0, False)
    ((sender, heard),) = now.items()
    weights = (heard.x, heard.y) if heard.vector == "x" else (heard.y, heard.x)
    swaps = bool(then) and next(iter(then.values())).vector != heard.vector
    return PairRule(sender, float(weights[0]), float(weights[1]), swaps)


class PairRound(NamedTuple):
    """What all nodes do in a round: see `PairRule`."""

    peers: IntArray
    """(n,): whom each hears; itself, with weights zero, where it hears no node."""
    weights: FloatArray
    """(n, 2): a and b of each."""
    swaps: bool


def pair_round(topology: TwoStateSequence, step: int) -> PairRound:
    """What all nodes do at a step.

    Args:
        topology: The sequence.
        step: The step.

    Raises:
        InvalidArgument: If a node hears more than one other, or nodes send different vectors.

    """
    rules = [pair_rule(topology, i, step) for i in range(topology.n)]
    vectors = set(topology.round(step).vectors)
    if len(vectors) > 1 or len({rule.swaps for rule in rules}) > 1:
        raise InvalidArgument("topology", topology.spec, "must send x in a round, or y, from all")
    peers = [i if rule.sender is None else rule.sender for i, rule in enumerate(rules)]
    weights = np.array([(rule.sent, rule.other) for rule in rules])
    return PairRound(np.array(peers), weights, rules[0].swaps)
