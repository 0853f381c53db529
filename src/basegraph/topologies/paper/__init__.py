"""The constructions of the paper, one per file.

`hyper_hypercube` (Alg. 1) averages exactly where n has no prime factor above k+1; `simple_base`
(Alg. 2) does so for any n, and `base` (Alg. 3), the Base-(k+1) Graph, in no more rounds. Their
periods are known without building them: `base_length`, `simple_base_length`,
`hyper_hypercube_length`.

Example:
    >>> base(25, k=2).period, base_length(25, 2)
    (6, 6)

"""

from basegraph.topologies.paper._base import base, base_length
from basegraph.topologies.paper._hyper_hypercube import hyper_hypercube, hyper_hypercube_length
from basegraph.topologies.paper._simple_base import simple_base, simple_base_length

__all__ = [
    "base",
    "base_length",
    "hyper_hypercube",
    "hyper_hypercube_length",
    "simple_base",
    "simple_base_length",
]
