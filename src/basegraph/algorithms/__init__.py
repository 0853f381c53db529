"""Decentralized optimization methods, one per file, written once for every engine.

A `Method` is two pure functions over flat vectors: `init(x) -> state` and
`step(x, grad, state, lr, mix) -> (x, state)`, where `mix` is the round of the topology. `algorithm`
makes one by its catalogue name (`ALGORITHMS` lists them). `stability` says whether a method blows
up on a topology whatever the learning rate, and `require_stable` refuses it. With local steps,
`communicates` and `round_index` say which steps end with which round, and `with_outer` gives these
a method of their own, as in DiLoCo.

Example:
    >>> import numpy as np
    >>> method = algorithm("dsgdm", momentum=0.5)
    >>> x, grad = np.zeros(2), np.array([1.0, -2.0])
    >>> x, state = method.step(x, grad, method.init(x), 0.1, mix=lambda v: v)
    >>> x
    array([-0.1,  0.2])

"""

from basegraph.algorithms._stability import (
    Stability,
    Unstable,
    largest_stable_damping,
    require_stable,
    stability,
)
from basegraph.algorithms.catalog import ALGORITHMS, algorithm, parse_algorithm
from basegraph.algorithms.local_steps import communicates, round_index
from basegraph.algorithms.method import Method, damped, no_mix, require_same_vectors
from basegraph.algorithms.outer import outer_method, with_outer

__all__ = [
    "ALGORITHMS",
    "Method",
    "Stability",
    "Unstable",
    "algorithm",
    "communicates",
    "damped",
    "largest_stable_damping",
    "no_mix",
    "outer_method",
    "parse_algorithm",
    "require_same_vectors",
    "require_stable",
    "round_index",
    "stability",
    "with_outer",
]
