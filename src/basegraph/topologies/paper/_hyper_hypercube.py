"""The k-peer hyper-hypercube graph (Alg. 1 of the paper)."""

from __future__ import annotations

from math import prod

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.closed_form import ClosedFormSequence, Segment, cliques
from basegraph.topologies.core.integers import at_least, fewest_factors, node_count, smooth_part
from basegraph.topologies.core.origin import Origin


def hyper_hypercube(
    n: int, k: int = 1, *, spec: str | None = None, origin: Origin = Origin.HYPER_HYPERCUBE
) -> ClosedFormSequence:
    """k-peer hyper-hypercube: exact consensus where n has no prime factor above k+1.

    Write n = n_1 * ... * n_L with the fewest factors from 2..k+1 and number the nodes by their
    mixed-radix digits; in round l, the nodes that agree in every digit but the l-th form complete
    graphs of n_l nodes with weights 1/n_l. (Alg. 1, whose line 9 must count an edge at both ends.)

    Period L, degree max(n_l) - 1 ≤ k. One identity round for n = 1.

    Args:
        n: Number of nodes.
        k: Largest number of neighbors a round.
        spec: What the sequence is called, where it is part of another construction.
        origin: What its arcs are labeled with.

    Raises:
        InvalidArgument: If n has a prime factor above k+1.

    Example:
        >>> [r.degree for r in hyper_hypercube(12, k=2)]
        [1, 1, 2]

    """
    n, k = node_count(n), at_least(1, k=k)
    if smooth_part(n, k + 1) != n:
        raise InvalidArgument(
            "n", n, f"hyper-hypercube with k={k} needs n without a prime factor above {k + 1}"
        )
    factors = fewest_factors(n, k + 1)

    def segments(phase: int) -> list[Segment]:
        if n == 1:
            return []
        return cliques(0, n, prod(factors[:phase]), factors[phase], origin)

    return ClosedFormSequence(
        spec or f"hyper-hypercube:k={k}",
        n,
        hyper_hypercube_length(n, k),
        segments,
        max_degree=max(factors, default=1) - 1,
        symmetric=True,
        promised_degree=k,
    )


def hyper_hypercube_length(n: int, k: int) -> int:
    """The period of `hyper_hypercube(n, k)`, without building it.

    Args:
        n: Number of nodes.
        k: Most neighbors of a node in a round.

    Returns:
        The number of rounds.

    Raises:
        InvalidArgument: If n has a prime factor above k + 1.

    Example:
        >>> hyper_hypercube_length(12, k=2)
        3

    """
    return max(1, len(fewest_factors(n, k + 1)))
