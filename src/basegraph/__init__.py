"""basegraph: exact averaging in finitely many gossip rounds, for any number of nodes."""

from basegraph.algorithms.catalog import ALGORITHMS, algorithm
from basegraph.consensus import consensus_error, gossip
from basegraph.errors import BasegraphError, InvalidArgument, InvalidRound, NotFiniteTime, PeerLost
from basegraph.topology.catalog import TOPOLOGIES, topology
from basegraph.topology.diagnostics import Diagnostics, diagnose
from basegraph.topology.disagreement import (
    PairWeights,
    noise_disagreement,
    pair_weights,
    training_disagreement,
)
from basegraph.topology.interchange import from_networkx
from basegraph.topology.origin import Origin
from basegraph.topology.properties import (
    bytes_per_round,
    consensus_delay,
    consensus_rate,
    shortest_possible,
    theorem_1_length,
)
from basegraph.topology.round import Round
from basegraph.topology.sequence import Sequence, Topology
from basegraph.topology.stay_home import stay_home
from basegraph.topology.verify import Certificate, verify

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """The optimizers, imported when asked for: they need torch, which takes its time."""
    if name == "DecentralizedOptimizer":
        from basegraph.optim.decentralized import DecentralizedOptimizer

        return DecentralizedOptimizer
    if name == "Gossip":
        from basegraph.optim.gossip import Gossip

        return Gossip
    raise AttributeError(f"module 'basegraph' has no attribute {name!r}")


__all__ = [
    "ALGORITHMS",
    "TOPOLOGIES",
    "BasegraphError",
    "Certificate",
    "DecentralizedOptimizer",
    "Diagnostics",
    "Gossip",
    "InvalidArgument",
    "InvalidRound",
    "NotFiniteTime",
    "Origin",
    "PairWeights",
    "PeerLost",
    "Round",
    "Sequence",
    "Topology",
    "algorithm",
    "bytes_per_round",
    "consensus_delay",
    "consensus_error",
    "consensus_rate",
    "diagnose",
    "from_networkx",
    "gossip",
    "noise_disagreement",
    "pair_weights",
    "shortest_possible",
    "stay_home",
    "theorem_1_length",
    "topology",
    "training_disagreement",
    "verify",
]
