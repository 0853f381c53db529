"""How long a sequence must be, and how long the paper's are at most."""

from __future__ import annotations

from basegraph.topologies.core.integers import at_least, ceil_log, floor_log


def shortest_possible(n: int, k: int) -> int:
    """A lower bound on the rounds of any sequence of degree k that reaches exact consensus.

    What a node holds can come from at most (k+1)^m nodes after m rounds, so m ≥ log_{k+1} n. With
    k = 1 and odd n someone idles in the last round and must hold the average before it: one more.

    Args:
        n: Number of nodes.
        k: Largest number of neighbors a round.

    Returns:
        A number of rounds; 0 for a single node.

    Raises:
        InvalidArgument: If an argument is not an integer ≥ 1.

    Example:
        >>> [shortest_possible(n, 1) for n in (1, 2, 3, 4, 5, 25)]
        [0, 1, 3, 2, 4, 6]

    """
    n, k = at_least(1, n=n), at_least(1, k=k)
    return ceil_log(n, k + 1) + (k == 1 and n % 2 == 1 and n > 1)


def theorem_1_length(n: int, k: int) -> int:
    """Theorem 1 of the paper: (simple-)base has at most floor(2 log_{k+1}(n) + 2) rounds.

    Args:
        n: Number of nodes.
        k: Largest number of neighbors a round.

    Returns:
        A number of rounds.

    Raises:
        InvalidArgument: If an argument is not an integer ≥ 1.

    Example:
        >>> theorem_1_length(25, 1)
        11

    """
    n, k = at_least(1, n=n), at_least(1, k=k)
    return floor_log(n * n, k + 1) + 2
