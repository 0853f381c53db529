"""The shortest known sequences, and the two block constructions behind them by name."""

from __future__ import annotations

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least, node_count
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.paper.base import base
from basegraph.topologies.short.block_merge import BlockMerge
from basegraph.topologies.short.corner_middle import BlockMix
from basegraph.topologies.short.euclid import euclid
from basegraph.topologies.short.laid_middle import LaidMix
from basegraph.topologies.short.layout import Runs, lay_out, sizes_of
from basegraph.topologies.short.planner import Plan, best_merge, best_mix, best_plan
from basegraph.topologies.transform.product import Product
from basegraph.topologies.transform.side_by_side import SideBySide


def short(n: int, k: int = 1, redundant: bool = True) -> Sequence:
    """Shortest known: the best of base, products, euclid, block-mix and block-merge.

    For every n and k the construction with the fewest rounds, whose blocks are again the shortest
    known, found by dynamic programming (`plan.py`). `redundant=False` leaves out all edges that
    consensus does not need: those of base, of blocks that have finished, and of nodes that idle in
    the middle of block-mix.

    Period never longer than base; degree ≤ k. With k = 1 at most 3 above `shortest_possible` for n
    up to 512, more for some n beyond: 4 for 999983 (25 rounds), 5 for 2**20 - 1 (26 rounds).

    >>> [short(25, k).period for k in (1, 2, 3, 4)]
    [7, 4, 3, 2]
    """
    n, k = node_count(n), at_least(1, k=k)
    redundant = _flag(redundant)
    return _build(n, best_plan(n, k), k, redundant, _spec("short", k, redundant))


def block_mix(n: int, k: int = 1, redundant: bool = True) -> Sequence:
    """Block-mix-block: average inside rows, mix once, average inside columns; most n.

    Two partitions of the nodes, into rows and into columns, whose blocks run `short`; between them
    one round that moves to every column its share of every row (see `BlockMix`). The shortest
    pair of partitions that the plan finds; refused where there is none.

    Period max T(row) + 1 + max T(column), degree ≤ k. `redundant=False` as for short.

    >>> block_mix(25).period
    7
    """
    n, k = node_count(n), at_least(1, k=k)
    redundant = _flag(redundant)
    plan = best_mix(n, k, 2 * n.bit_length() + 3)
    if plan is None:
        raise InvalidArgument("n", n, f"block-mix with k={k} knows no rows and columns for it")
    return _build(n, plan, k, redundant, _spec("block-mix", k, redundant))


def block_merge(n: int, k: int = 2, redundant: bool = True) -> Sequence:
    """Block-merge: average inside a few blocks, then hear each of them at once; k ≥ 2.

    The blocks run `short`; in the last round every node hears its share b_j / n of every other
    block j (see `BlockMerge`). The shortest partition that the plan finds; up to k+1 nodes are
    blocks of their own, which makes the complete graph.

    Period max T(block) + 1 ≤ 1 + ceil(log_h(n / (k+1))) with h = floor(k/2) + 1 for n > k+1,
    degree ≤ k. `redundant=False` as for short.

    >>> block_merge(10, k=3).period
    2
    """
    n, k = node_count(n), at_least(2, k=k)
    redundant = _flag(redundant)
    plan = best_merge(n, k, 2 * n.bit_length() + 3)
    spec = _spec("block-merge", k, redundant)
    return _build(n, plan, k, redundant, spec) if n > 1 and plan else base(n, k, spec=spec)


def _flag(redundant: object) -> bool:
    if not isinstance(redundant, bool):
        raise InvalidArgument("redundant", redundant, "must be True or False")
    return redundant


def _spec(name: str, k: int, redundant: bool) -> str:
    return f"{name}:k={k}" + ("" if redundant else ",redundant=false")


def _build(n: int, plan: Plan, k: int, redundant: bool, spec: str) -> Sequence:
    """The sequence that a plan describes."""

    def shortest(size: int) -> Sequence:
        return _build(size, best_plan(size, k), k, redundant, _spec("short", k, redundant))

    def side_by_side(runs: Runs) -> SideBySide:
        blocks = {size: shortest(size) for size, _ in runs}
        return SideBySide([(blocks[size], copies) for size, copies in runs], redundant)

    if plan.kind == "euclid":
        return euclid(n, spec=spec)
    if plan.kind == "product":
        inner, outer = (shortest(size) for ((size, _),) in plan.blocks)
        return Product(inner, outer, spec, promised_degree=k)
    if plan.kind == "mix":
        rows, columns = map(side_by_side, plan.blocks)
        if plan.turn is None:
            return BlockMix(rows, columns, k, redundant, spec)
        layout = lay_out(sizes_of(plan.blocks[0]), sizes_of(plan.blocks[1]), plan.turn)
        assert layout is not None  # the table holds turns that succeed, which tests prove
        return LaidMix(rows, columns, layout, redundant, spec)
    if plan.kind == "merge":
        return BlockMerge(side_by_side(plan.blocks[0]), spec, promised_degree=k)
    return base(n, k, redundant, spec=spec)
