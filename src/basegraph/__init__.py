"""basegraph: exact averaging in finitely many gossip rounds, for any number of nodes."""

from basegraph.algorithms.catalog import ALGORITHMS, algorithm
from basegraph.errors import BasegraphError, InvalidArgument, InvalidRound, NotFiniteTime, PeerLost
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
from basegraph.topologies.catalog import TOPOLOGIES, topology
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Sequence, Topology
from basegraph.topologies.transform.interchange import from_networkx
from basegraph.topologies.transform.stay_home import stay_home
from basegraph.topologies.verify.certificate import Certificate, verify

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
