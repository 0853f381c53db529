"""The shortest known sequences, and the two block constructions behind them by name."""

from __future__ import annotations

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least, node_count
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.paper._base import base
from basegraph.topologies.short._block_merge import MOST_MERGED
from basegraph.topologies.short.planner import default_planner
from basegraph.topologies.short.plans import Plan


def short(n: int, k: int = 1, redundant: bool = True) -> Sequence:
    """Shortest known: the best of base, products, euclid, block-mix and block-merge.

    For every n and k the construction with the fewest rounds, whose blocks are again the shortest
    known, found by dynamic programming (`Planner`). `redundant=False` leaves out all edges that
    consensus does not need: those of base, of blocks that have finished, and of nodes that idle in
    the middle of block-mix.

    Period never longer than base; degree ≤ k. With k = 1 at most 3 above `shortest_possible` for n
    up to 512 and for 999983 (24 rounds), more for some n beyond: 4 for 2**20 - 1 (26 rounds).

    Args:
        n: Number of nodes.
        k: Largest number of neighbors a round.
        redundant: Whether to keep the edges that consensus does not need.

    Raises:
        InvalidArgument: If an argument is out of range.

    Example:
        >>> [short(25, k).period for k in (1, 2, 3, 4)]
        [7, 4, 3, 2]

    """
    n, k = node_count(n), at_least(1, k=k)
    redundant = _flag(redundant)
    return _shortest(n, k, redundant)


def block_mix(n: int, k: int = 1, redundant: bool = True) -> Sequence:
    """Block-mix-block: average inside rows, mix once, average inside columns; most n.

    Two partitions of the nodes, into rows and into columns, whose blocks run `short`; between them
    one round that moves to every column its share of every row (see `BlockMix`). The shortest
    pair of partitions that the plan finds; refused where there is none.

    Period max T(row) + 1 + max T(column), degree ≤ k. `redundant=False` as for short.

    Args:
        n: Number of nodes.
        k: Largest number of neighbors a round.
        redundant: Whether to keep the edges that consensus does not need.

    Raises:
        InvalidArgument: If an argument is out of range, or no rows and columns are known for n.

    Example:
        >>> block_mix(25).period
        7

    """
    n, k = node_count(n), at_least(1, k=k)
    redundant = _flag(redundant)
    plan = default_planner().best_mix(n, k, 2 * n.bit_length() + 3)
    if plan is None:
        raise InvalidArgument("n", n, f"block-mix with k={k} knows no rows and columns for it")
    return _built(plan, "block-mix", k, redundant)


def block_merge(n: int, k: int = 2, redundant: bool = True) -> Sequence:
    """Block-merge: average inside a few blocks, then hear each of them at once; k ≥ 2.

    The blocks run `short`; in the last round every node hears its share b_j / n of every other
    block j (see `BlockMerge`). The shortest partition that the plan finds; up to k+1 nodes are
    blocks of their own, which makes the complete graph.

    Period max T(block) + 1 ≤ 1 + ceil(log_h(n / (k+1))) with h = floor(k/2) + 1 for n > k+1,
    degree ≤ k. `redundant=False` as for short.

    Args:
        n: Number of nodes.
        k: Largest number of neighbors a round, at least 2.
        redundant: Whether to keep the edges that consensus does not need.

    Raises:
        InvalidArgument: If an argument is out of range, or n above 2**28.

    Example:
        >>> block_merge(10, k=3).period
        2

    """
    n, k = node_count(n), at_least(2, k=k)
    redundant = _flag(redundant)
    if n > MOST_MERGED:
        raise InvalidArgument("n", n, f"block-merge counts its edges for up to {MOST_MERGED} nodes")
    plan = default_planner().best_merge(n, k, 2 * n.bit_length() + 3)
    if n == 1 or plan is None:
        return base(n, k, spec=_spec("block-merge", k, redundant))
    return _built(plan, "block-merge", k, redundant)


def _flag(redundant: object) -> bool:
    if not isinstance(redundant, bool):
        raise InvalidArgument("redundant", redundant, "must be True or False")
    return redundant


def _spec(name: str, k: int, redundant: bool) -> str:
    return f"{name}:k={k}" + ("" if redundant else ",redundant=false")


def _shortest(n: int, k: int, redundant: bool) -> Sequence:
    return _built(default_planner().best_plan(n, k), "short", k, redundant)


def _built(plan: Plan, name: str, k: int, redundant: bool) -> Sequence:
    """The sequence that a plan describes; its blocks run the shortest known."""
    spec = _spec(name, k, redundant)
    return plan.build(spec, redundant, lambda size: _shortest(size, k, redundant))
