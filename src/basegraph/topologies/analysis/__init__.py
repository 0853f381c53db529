"""Numbers about a topology; public as `bg.analysis`.

- `gossip` mixes vectors round by round; `consensus_error` is how far they are from their average.
- `consensus_rate`, `consensus_delay`, `reaches_average`: how fast disagreement falls.
- `shortest_possible`, `theorem_1_length`: how short a sequence can be, how long the paper's are.
- `bytes_per_round`: what a node sends; `ring_all_reduce_vectors`: what an all-reduce makes it send.
- `Network` models a network: `quickest_average` says how vectors are averaged soonest on one.
- `training_disagreement`, `noise_disagreement`, `pair_weights`: how far nodes stay apart while they
  are trained, which the number of rounds does not say; `diagnose` gives all three.

Example:
    >>> import numpy as np
    >>> from basegraph.topologies.paper import base
    >>> states = gossip(base(5), np.array([0.0, 1, 2, 3, 4]))
    >>> [next(states) for _ in range(6)][-1].round(12)
    array([2., 2., 2., 2., 2.])

"""

from basegraph.topologies.analysis._gossip import consensus_error, gaussian_start, gossip
from basegraph.topologies.analysis.bounds import shortest_possible, theorem_1_length
from basegraph.topologies.analysis.diagnostics import Diagnostics, diagnose
from basegraph.topologies.analysis.disagreement import (
    PairWeights,
    noise_disagreement,
    pair_weights,
    training_disagreement,
)
from basegraph.topologies.analysis.message_bytes import (
    MessageBytes,
    bytes_per_round,
    ring_all_reduce_vectors,
)
from basegraph.topologies.analysis.network import Network, quickest_average
from basegraph.topologies.analysis.rates import consensus_delay, consensus_rate, reaches_average

__all__ = [
    "Diagnostics",
    "MessageBytes",
    "Network",
    "PairWeights",
    "bytes_per_round",
    "consensus_delay",
    "consensus_error",
    "consensus_rate",
    "diagnose",
    "gaussian_start",
    "gossip",
    "noise_disagreement",
    "pair_weights",
    "quickest_average",
    "reaches_average",
    "ring_all_reduce_vectors",
    "shortest_possible",
    "theorem_1_length",
    "training_disagreement",
]
