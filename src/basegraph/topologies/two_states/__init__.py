"""Sequences for nodes that keep two vectors each: shorter than any with one vector.

With one vector per node and one neighbor a round, no sequence is shorter than
`shortest_possible(n, 1)`, and for most n none so short is known. A node that keeps a second vector
needs ceil(log2 n) rounds for every n, with one message out and one in per round: `ceca`.

A round is then a linear map on 2n vectors, `TwoStateRound`, and `TwoStateSequence` says which
happens at step t. It is no `Topology`, whose rounds are n × n. `verify` multiplies the 2n × 2n maps
of a period: every x must end as the average of all x, whatever the y were. In training the methods
`dsgd-ceca` and `dsgdm-ceca` use it, by `pair_rule`: what a node does with what it hears.

Example:
    >>> t = ceca(5)
    >>> [(r.vectors[0], r.neighbors(0)) for r in t][1]
    ('y', {4: Heard(vector='y', x=Fraction(1, 3), y=Fraction(1, 2))})
    >>> x, y = [0.0, 1.0, 2.0, 3.0, 4.0], [9.0] * 5
    >>> state = [*x, *y]
    >>> for r in t:
    ...     state = r.matrix() @ state
    >>> state[:5].round(12).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]

"""

from basegraph.topologies.two_states._ceca import Ceca, ceca
from basegraph.topologies.two_states.exchange import PairRound, PairRule, pair_round, pair_rule
from basegraph.topologies.two_states.round import Heard, TwoStateRound
from basegraph.topologies.two_states.sequence import (
    TWO_VECTORS,
    AnyTopology,
    TwoStateSequence,
    refuse_two_states,
)

__all__ = [
    "TWO_VECTORS",
    "AnyTopology",
    "Ceca",
    "Heard",
    "PairRound",
    "PairRule",
    "TwoStateRound",
    "TwoStateSequence",
    "ceca",
    "pair_round",
    "pair_rule",
    "refuse_two_states",
]
