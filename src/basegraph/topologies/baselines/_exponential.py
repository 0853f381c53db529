"""Exponential graphs (Ying et al. 2021) and the one-peer hypercube (Shi et al. 2016)."""

from __future__ import annotations

from fractions import Fraction

from basegraph.errors import InvalidArgument
from basegraph.topologies.baselines.static import static
from basegraph.topologies.core.closed_form import ClosedFormSequence, circulant
from basegraph.topologies.core.integers import ceil_log, node_count
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.paper._hyper_hypercube import hyper_hypercube


def exponential(n: int) -> ClosedFormSequence:
    """Exponential graph (directed): node i hears i - 1, i - 2, i - 4, ..., all weights equal.

    Node i hears i - 2^j mod n for j = 0 .. L-1 with L = ceil(log2 n), weights 1/(L+1).

    Period 1, degree L. Consensus rate 1 - O(1/log n).

    Args:
        n: Number of nodes.

    Raises:
        InvalidArgument: If n is not an integer ≥ 1.

    Example:
        >>> exponential(6).neighbors(0, 0)
        {5: Fraction(1, 4), 4: Fraction(1, 4), 2: Fraction(1, 4)}

    """
    n = node_count(n)
    reach = ceil_log(n, 2)
    shifts = {2**j: Fraction(1, reach + 1) for j in range(reach)}
    return static("exponential", n, circulant(n, shifts), symmetric=n <= 2)


def one_peer_exponential(n: int) -> ClosedFormSequence:
    """One-peer exponential graph (directed): in round j, node i hears i - 2^j mod n, weight 1/2.

    Any n; exact consensus only where n is a power of two.

    Period ceil(log2 n), degree 1.

    Args:
        n: Number of nodes.

    Raises:
        InvalidArgument: If n is not an integer ≥ 1.

    Example:
        >>> [list(one_peer_exponential(6).neighbors(0, t)) for t in range(3)]
        [[5], [4], [2]]

    """
    n = node_count(n)
    reach = ceil_log(n, 2)
    rounds = [circulant(n, {2**j: Fraction(1, 2)}) for j in range(reach)] or [[]]
    return ClosedFormSequence(
        "one-peer-exponential",
        n,
        len(rounds),
        lambda phase: rounds[phase],
        max_degree=min(1, reach),
        symmetric=n <= 2,
    )


def one_peer_hypercube(n: int) -> ClosedFormSequence:
    """One-peer hypercube: in round j, node i talks to i XOR 2^j, weight 1/2; n a power of two.

    The hyper-hypercube with k = 1. Period log2 n, degree 1.

    Args:
        n: Number of nodes.

    Raises:
        InvalidArgument: If n is not a power of two.

    Example:
        >>> [list(one_peer_hypercube(8).neighbors(5, t)) for t in range(3)]
        [[4], [7], [1]]

    """
    n = node_count(n)
    if n & (n - 1):
        raise InvalidArgument("n", n, "one-peer-hypercube needs n to be a power of two")
    return hyper_hypercube(n, 1, spec="one-peer-hypercube", origin=Origin.UNSPECIFIED)
