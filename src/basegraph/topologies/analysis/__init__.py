"""Numbers about a topology: gossip on vectors, rates, bounds, disagreement in training.

- `gossip`, `consensus_error` (`gossip.py`): mix vectors round by round.
- `consensus_rate`, `consensus_delay` (`rates.py`): how fast disagreement falls.
- `shortest_possible`, `theorem_1_length` (`bounds.py`): how short a sequence can be.
- `bytes_per_round` (`message_bytes.py`): what a round sends.
- `training_disagreement`, `noise_disagreement`, `pair_weights` (`disagreement.py`): what the number
  of rounds does not say. `diagnose` (`diagnostics.py`) gives all three.

>>> import numpy as np
>>> import basegraph as bg
>>> t = bg.topology("base:k=1", n=5)
>>> values = bg.analysis.gossip(t, np.array([0.0, 1, 2, 3, 4]))
>>> [next(values) for _ in range(t.period + 1)][-1].round(12)
array([2., 2., 2., 2., 2.])
"""

from basegraph.topologies.analysis.bounds import shortest_possible, theorem_1_length
from basegraph.topologies.analysis.diagnostics import Diagnostics, diagnose
from basegraph.topologies.analysis.disagreement import (
    PairWeights,
    noise_disagreement,
    pair_weights,
    training_disagreement,
)
from basegraph.topologies.analysis.gossip import consensus_error, gossip
from basegraph.topologies.analysis.message_bytes import bytes_per_round
from basegraph.topologies.analysis.rates import consensus_delay, consensus_rate

__all__ = [
    "Diagnostics",
    "PairWeights",
    "bytes_per_round",
    "consensus_delay",
    "consensus_error",
    "consensus_rate",
    "diagnose",
    "gossip",
    "noise_disagreement",
    "pair_weights",
    "shortest_possible",
    "theorem_1_length",
    "training_disagreement",
]
