"""The Base-(k+1) Graph (Alg. 3 of the paper)."""

from __future__ import annotations

from basegraph.topologies.core.integers import at_least, node_count, smooth_part
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.paper._hyper_hypercube import hyper_hypercube, hyper_hypercube_length
from basegraph.topologies.paper._simple_base import paper_spec, simple_base, simple_base_length
from basegraph.topologies.transform.product import Product


def base(
    n: int,
    k: int = 1,
    redundant: bool = True,
    isolated: str = "first",
    *,
    spec: str | None = None,
) -> Sequence:
    """Base-(k+1) Graph: exact consensus for any n, in no more rounds than simple-base.

    n = p * q, p the largest divisor of n without a prime factor above k+1 (which is what line 2 of
    Alg. 3 must mean). p groups of q nodes each run simple-base; then the hyper-hypercube joins the
    groups, q copies of it side by side. The plain simple-base on all nodes where that is shorter.

    Period ≤ 2 log_{k+1}(n) + 2, degree ≤ k.

    Args:
        n: Number of nodes.
        k: Largest number of neighbors a round.
        redundant: As for `simple_base`.
        isolated: As for `simple_base`.
        spec: What the sequence is called, where it is part of another construction.

    Raises:
        InvalidArgument: If an argument is out of range.

    Example:
        >>> [base(25, k).period for k in (1, 2, 3, 4)]
        [9, 6, 5, 2]

    """
    n, k = node_count(n), at_least(1, k=k)
    spec = spec or paper_spec("base", k, redundant, isolated)
    groups = _groups(n, k)
    if groups == 1:
        return simple_base(n, k, redundant, isolated, spec=spec)
    inner = simple_base(n // groups, k, redundant, isolated)
    outer = hyper_hypercube(groups, k, origin=Origin.ACROSS)
    return Product(inner, outer, spec, promised_degree=k)


def base_length(n: int, k: int) -> int:
    """The period of `base(n, k)`, without building it.

    Args:
        n: Number of nodes.
        k: Most neighbors of a node in a round.

    Returns:
        The number of rounds.

    Example:
        >>> [base_length(25, k) for k in (1, 2, 3, 4)]
        [9, 6, 5, 2]

    """
    groups = _groups(n, k)
    return simple_base_length(n, k) if groups == 1 else _product_length(n, k, groups)


def _groups(n: int, k: int) -> int:
    """Into how many groups Alg. 3 splits the nodes; 1 where simple-base is shorter."""
    p = smooth_part(n, k + 1)
    if 1 < p < n and _product_length(n, k, p) <= simple_base_length(n, k):
        return p
    return 1


def _product_length(n: int, k: int, groups: int) -> int:
    return simple_base_length(n // groups, k) + hyper_hypercube_length(groups, k)
