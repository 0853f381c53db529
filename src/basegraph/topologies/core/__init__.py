"""The value types of a topology, and the exact numbers behind them.

A `Round` is one mixing matrix with exact rational weights; a `Topology` says which round happens at
step t, and a `Sequence` is one with a period. `ClosedFormSequence` and `RandomTopology` are given
by rules (`Segment`) that answer for a whole round or for one node. `Origin` names the line of
pseudo-code that added an arc, `digest` sums a topology up, and `PerPhase` keeps what is computed
from rounds for when they come again.

Behind them: `integers` (exact logarithms and factors), `rational` (numbers as people write them),
`random` (Philox by key), `tables` (searched parameters as JSON), `notebook` (display).

Example:
    >>> from fractions import Fraction
    >>> once = Round.from_edges(2, {(0, 1): Fraction(1, 2)})
    >>> Sequence([once]).round(7).neighbors(0)
    {1: Fraction(1, 2)}

"""

from basegraph.topologies.core._digest import digest
from basegraph.topologies.core.closed_form import ClosedFormSequence, RandomTopology, Segment
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.phases import PerPhase
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Sequence, Topology

__all__ = [
    "ClosedFormSequence",
    "Origin",
    "PerPhase",
    "RandomTopology",
    "Round",
    "Segment",
    "Sequence",
    "Topology",
    "digest",
]
