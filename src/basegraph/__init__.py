"""Exact averaging in finitely many gossip rounds, for any number of nodes.

Topologies: `topology` builds one of the catalogue `TOPOLOGIES`, `verify` proves that it averages
exactly, `from_networkx` makes one of any graph, and `analysis` measures them (gossip on vectors,
rates, bounds, disagreement). `advise` says which one to take on a network. Methods: `algorithm`
builds one of the catalogue `ALGORITHMS`.

Training: `RunConfig` says what to train, `train` does it with all nodes in one process, on a
`Dataset` of your own if you pass one (`text` reads text files). `export` gives the model, and
`sample` lets a model of text write.
`DecentralizedOptimizer` and `Gossip` are optimizers for PyTorch scripts with one node per process,
or per group of processes; `save_checkpoint`, `load_checkpoint` and `save_averaged` save all nodes.
These need torch: `pip install 'basegraph[train]'`.

Names are imported on first use: `import basegraph` loads nothing else.

>>> import basegraph as bg
>>> t = bg.topology("base", n=25, k=1)
>>> t
<base:k=1, 25 nodes, 9 rounds, degree 1>
>>> print(bg.verify(t))
base:k=1, n=25: 9 rounds of degree ≤ 1 multiply to J/n (exact integer product)
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.algorithms.catalog import ALGORITHMS, algorithm
    from basegraph.data._text import text
    from basegraph.data.dataset import Dataset, Split, Text
    from basegraph.errors import (
        BasegraphError,
        InvalidArgument,
        InvalidRound,
        NotFiniteTime,
        PeerLost,
    )
    from basegraph.experiments._advise import Advice, advise
    from basegraph.experiments.choice import Choice
    from basegraph.extras import MissingExtra
    from basegraph.optim.checkpoints import (
        Restored,
        load_checkpoint,
        save_averaged,
        save_checkpoint,
    )
    from basegraph.optim.decentralized import DecentralizedOptimizer
    from basegraph.optim.gossip import Gossip
    from basegraph.topologies import analysis
    from basegraph.topologies.analysis import (
        Diagnostics,
        PairWeights,
        bytes_per_round,
        consensus_delay,
        consensus_error,
        consensus_rate,
        diagnose,
        noise_disagreement,
        pair_weights,
        shortest_possible,
        theorem_1_length,
        training_disagreement,
    )
    from basegraph.topologies.analysis import gossip as gossip
    from basegraph.topologies.catalog import TOPOLOGIES, topology
    from basegraph.topologies.core.origin import Origin
    from basegraph.topologies.core.round import Round
    from basegraph.topologies.core.sequence import Sequence, Topology
    from basegraph.topologies.transform._shuffled import shuffled
    from basegraph.topologies.transform._stay_home import stay_home
    from basegraph.topologies.transform.interchange import from_networkx
    from basegraph.topologies.two_states.round import TwoStateRound
    from basegraph.topologies.two_states.sequence import TwoStateSequence
    from basegraph.topologies.verify.certificate import Certificate, verify
    from basegraph.training._export import export
    from basegraph.training._sample import sample
    from basegraph.training._train import train
    from basegraph.training.config import RunConfig
else:
    _HOMES = {
        "ALGORITHMS": "basegraph.algorithms.catalog",
        "algorithm": "basegraph.algorithms.catalog",
        "text": "basegraph.data._text",
        "Dataset": "basegraph.data.dataset",
        "Split": "basegraph.data.dataset",
        "Text": "basegraph.data.dataset",
        "BasegraphError": "basegraph.errors",
        "InvalidArgument": "basegraph.errors",
        "InvalidRound": "basegraph.errors",
        "NotFiniteTime": "basegraph.errors",
        "PeerLost": "basegraph.errors",
        "Advice": "basegraph.experiments._advise",
        "advise": "basegraph.experiments._advise",
        "Choice": "basegraph.experiments.choice",
        "MissingExtra": "basegraph.extras",
        "Restored": "basegraph.optim.checkpoints",
        "load_checkpoint": "basegraph.optim.checkpoints",
        "save_averaged": "basegraph.optim.checkpoints",
        "save_checkpoint": "basegraph.optim.checkpoints",
        "DecentralizedOptimizer": "basegraph.optim.decentralized",
        "Gossip": "basegraph.optim.gossip",
        "analysis": "basegraph.topologies",
        "Diagnostics": "basegraph.topologies.analysis",
        "PairWeights": "basegraph.topologies.analysis",
        "bytes_per_round": "basegraph.topologies.analysis",
        "consensus_delay": "basegraph.topologies.analysis",
        "consensus_error": "basegraph.topologies.analysis",
        "consensus_rate": "basegraph.topologies.analysis",
        "diagnose": "basegraph.topologies.analysis",
        "gossip": "basegraph.topologies.analysis",
        "noise_disagreement": "basegraph.topologies.analysis",
        "pair_weights": "basegraph.topologies.analysis",
        "shortest_possible": "basegraph.topologies.analysis",
        "theorem_1_length": "basegraph.topologies.analysis",
        "training_disagreement": "basegraph.topologies.analysis",
        "TOPOLOGIES": "basegraph.topologies.catalog",
        "topology": "basegraph.topologies.catalog",
        "Origin": "basegraph.topologies.core.origin",
        "Round": "basegraph.topologies.core.round",
        "Sequence": "basegraph.topologies.core.sequence",
        "Topology": "basegraph.topologies.core.sequence",
        "from_networkx": "basegraph.topologies.transform.interchange",
        "shuffled": "basegraph.topologies.transform._shuffled",
        "stay_home": "basegraph.topologies.transform._stay_home",
        "TwoStateRound": "basegraph.topologies.two_states.round",
        "TwoStateSequence": "basegraph.topologies.two_states.sequence",
        "Certificate": "basegraph.topologies.verify.certificate",
        "verify": "basegraph.topologies.verify.certificate",
        "RunConfig": "basegraph.training.config",
        "export": "basegraph.training._export",
        "sample": "basegraph.training._sample",
        "train": "basegraph.training._train",
    }
    _NEEDS = dict.fromkeys(
        (
            *("DecentralizedOptimizer", "Gossip", "export", "sample", "train"),
            *("Restored", "load_checkpoint", "save_averaged", "save_checkpoint"),
        ),
        "torch",
    )
    __getattr__, _names = lazy_names(__name__, _HOMES, _NEEDS)

    def __dir__() -> list[str]:
        """The public names; `gossip`, which is `analysis.gossip`, only differs by case from one."""
        return [name for name in _names() if name != "gossip"]


__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "TOPOLOGIES",
    "Advice",
    "BasegraphError",
    "Certificate",
    "Choice",
    "Dataset",
    "DecentralizedOptimizer",
    "Diagnostics",
    "Gossip",
    "InvalidArgument",
    "InvalidRound",
    "MissingExtra",
    "NotFiniteTime",
    "Origin",
    "PairWeights",
    "PeerLost",
    "Restored",
    "Round",
    "RunConfig",
    "Sequence",
    "Split",
    "Text",
    "Topology",
    "TwoStateRound",
    "TwoStateSequence",
    "advise",
    "algorithm",
    "analysis",
    "bytes_per_round",
    "consensus_delay",
    "consensus_error",
    "consensus_rate",
    "diagnose",
    "export",
    "from_networkx",
    "load_checkpoint",
    "noise_disagreement",
    "pair_weights",
    "sample",
    "save_averaged",
    "save_checkpoint",
    "shortest_possible",
    "shuffled",
    "stay_home",
    "text",
    "theorem_1_length",
    "topology",
    "train",
    "training_disagreement",
    "verify",
]
