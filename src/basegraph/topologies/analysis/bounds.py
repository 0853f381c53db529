"""How long a sequence must be, and how long the paper's are at most."""

from __future__ import annotations

from basegraph.topologies.core.integers import at_least, ceil_log, floor_log


def shortest_possible(n: int, k: int) -> int:
    """A lower bound on the rounds of any sequence of degree k that reaches exact consensus.

    What a node holds can come from at most (k+1)^m nodes after m rounds, so m ≥ log_{k+1} n. With
    k = 1 there is more, proved in docs/explanation/shorter.md and bounds.md:

    - n odd: someone idles in the last round and must hold the average before it; one more.
    - n = 2^m - 1, m ≥ 3: m + 2, one more again (Lemma 14).
    - n = 2^m - 2, m ≥ 4: m + 1, one more than the logarithm (Lemma 12).

    Args:
        n: Number of nodes.
        k: Largest number of neighbors a round.

    Returns:
        A number of rounds; 0 for a single node.

    Raises:
        InvalidArgument: If an argument is not an integer ≥ 1.

    Example:
        >>> [shortest_possible(n, 1) for n in (1, 2, 3, 4, 5, 7, 14, 25)]
        [0, 1, 3, 2, 4, 5, 5, 6]

    """
    n, k = at_least(1, n=n), at_least(1, k=k)
    rounds = ceil_log(n, k + 1)
    if k > 1 or n == 1:
        return rounds
    just_below_a_power = (n + 1 == 2**rounds and rounds >= 3) or (
        n + 2 == 2**rounds and rounds >= 4
    )
    return rounds + n % 2 + just_below_a_power


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
