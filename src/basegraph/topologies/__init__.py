"""Topologies: which nodes talk when, so that all nodes soon hold the average of all.

`topology` builds one by its catalogue name (`TOPOLOGIES` lists them), `Sequence` and
`from_networkx` make one's own. Below:

- `core`: `Round`, `Sequence`, `Topology`, closed forms and the exact integers behind them;
- `paper`: the hyper-hypercube, the Simple Base-(k+1) Graph and the Base-(k+1) Graph;
- `baselines`: what the paper compares with;
- `short`, `steady`: the shortest known sequences, and those chosen for small disagreement;
- `two_states`: sequences for nodes that keep two vectors each, shorter than any with one;
- `transform`: sequences made from others, and from networkx graphs;
- `verify`: the exact proof that a sequence averages in finite time;
- `analysis`: gossip on vectors, rates, bounds, disagreement.

Everything here needs numpy and scipy alone (networkx for its graphs, matplotlib for `draw`).

Example:
    >>> t = topology("base", n=6, k=1)
    >>> t
    <base:k=1, 6 nodes, 4 rounds, degree 1>
    >>> t.neighbors(0, step=1), t.listeners(0, step=1)
    ({2: Fraction(2, 3)}, (2,))
    >>> t == Sequence(list(t))
    True

"""

from basegraph.topologies.catalog import TOPOLOGIES, parse_spec, topology
from basegraph.topologies.core import Origin, Round, Sequence, Topology
from basegraph.topologies.transform import from_networkx, shuffled, stay_home
from basegraph.topologies.two_states import TwoStateRound, TwoStateSequence

__all__ = [
    "TOPOLOGIES",
    "Origin",
    "Round",
    "Sequence",
    "Topology",
    "TwoStateRound",
    "TwoStateSequence",
    "from_networkx",
    "parse_spec",
    "shuffled",
    "stay_home",
    "topology",
]
