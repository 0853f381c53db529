"""The Base-(k+1) Graph (Alg. 3 of the paper)."""

from __future__ import annotations

from basegraph.topologies.core.integers import at_least, node_count, smooth_part
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.paper.hyper_hypercube import hyper_hypercube
from basegraph.topologies.paper.simple_base import simple_base
from basegraph.topologies.transform.product import Product


def base(n: int, k: int = 1, redundant: bool = True, isolated: str = "first") -> Sequence:
    """Base-(k+1) Graph: exact consensus for any n, in no more rounds than simple-base.

    n = p * q, p the largest divisor of n without a prime factor above k+1 (which is what line 2 of
    Alg. 3 must mean). p groups of q nodes each run simple-base; then the hyper-hypercube joins the
    groups, q copies of it side by side. The plain simple-base on all nodes where that is shorter.
    `redundant` and `isolated` as for simple-base.

    Period ≤ 2 log_{k+1}(n) + 2, degree ≤ k.

    >>> [base(25, k).period for k in (1, 2, 3, 4)]
    [9, 6, 5, 2]
    """
    n, k = node_count(n), at_least(1, k=k)
    sequence: Sequence = simple_base(n, k, redundant, isolated)
    spec = sequence.spec.removeprefix("simple-")
    p = smooth_part(n, k + 1)
    if 1 < p < n:
        inner = simple_base(n // p, k, redundant, isolated)
        outer = hyper_hypercube(p, k, origin=Origin.ACROSS)
        if inner.period + outer.period <= sequence.period:
            sequence = Product(inner, outer, spec)
    sequence.spec, sequence.promised_degree = spec, k
    return sequence
