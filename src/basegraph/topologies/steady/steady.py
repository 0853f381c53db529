"""Steady: exact sequences of pairs that keep nodes close while they are trained."""

from __future__ import annotations

from basegraph.topologies.core.integers import node_count
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.paper.base import base
from basegraph.topologies.short.euclid import by_mirrors, euclid
from basegraph.topologies.steady.free_mirrors import free_mirrors
from basegraph.topologies.steady.middle_table import MIDDLES
from basegraph.topologies.steady.solved_mix import solved_mix
from basegraph.topologies.steady.steady_table import CHOICES


def steady(n: int) -> Sequence:
    """Steady: exact consensus with one neighbor a round and small disagreement in training.

    Up to 64 nodes, made for small D (`training_disagreement` at ρ = 0.05) from tables that scripts
    search for: the mirrors of `euclid` with the choices that it leaves free, up to two more mirrors
    at the end (scripts/search_steady.py), or block-mix with everybody busy in the middle
    (scripts/search_middle.py); base where neither is better. Beyond: euclid where 8 divides n,
    which is no power of two; base otherwise.

    Period at most two rounds above euclid where the tables know n; degree 1.

    >>> steady(33).period, steady(101).period == base(101).period
    (7, True)
    """
    n = node_count(n)
    if n in MIDDLES:
        return solved_mix(MIDDLES[n], "steady")
    if n in CHOICES:
        return by_mirrors("steady", n, free_mirrors(n if n % 2 else n // 2, CHOICES[n]))
    if n > max(CHOICES) and n % 8 == 0 and n & (n - 1):
        return euclid(n, spec="steady")
    return base(n, spec="steady")
