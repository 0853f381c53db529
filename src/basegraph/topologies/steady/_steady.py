"""Steady: exact sequences of pairs that keep nodes close while they are trained."""

from __future__ import annotations

from basegraph.topologies.core.integers import node_count
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.paper._base import base
from basegraph.topologies.short._euclid import by_mirrors, euclid
from basegraph.topologies.steady._free_mirrors import free_mirrors, mirror_table
from basegraph.topologies.steady._solved_mix import mix_table, solved_mix


def steady(n: int) -> Sequence:
    """Steady: exact consensus with one neighbor a round and small disagreement in training.

    Up to 64 nodes, made for small D (`training_disagreement` at ρ = 0.05) from tables of searched
    parameters: the mirrors of `euclid` with what it leaves free, up to two more mirrors at the end
    (mirrors.json, made by scripts/search_steady.py), or block-mix with no node idle in the middle
    (mixes.json, by scripts/search_middle.py); base where neither is better. Beyond:
    euclid where 8 divides n, which is no power of two; base otherwise.

    Period at most two rounds above euclid where the tables know n; degree 1.

    Args:
        n: Number of nodes.

    Raises:
        InvalidArgument: If n is not an integer ≥ 1.

    Example:
        >>> steady(33).period, steady(101).period == base(101).period
        (7, True)

    """
    n = node_count(n)
    mixes, mirrors = mix_table(), mirror_table()
    if n in mixes:
        return solved_mix(mixes[n], "steady")
    if n in mirrors:
        return by_mirrors("steady", n, free_mirrors(n if n % 2 else n // 2, mirrors[n]))
    if n > max(mirrors) and n % 8 == 0 and n & (n - 1):
        return euclid(n, spec="steady")
    return base(n, spec="steady")
