"""The product of one period, exactly, in integers.

Every round times its common denominator D_t is an integer matrix. Row i of the integer product is
packed into one Python integer, an entry every w bits with 2^w > n ∏ D_t, so that no entry can spill
into the next: a gossip round is then a few big-integer operations per node, and the end is compared
with ∏ D_t / n in every entry. No error is possible.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basegraph.errors import NotFiniteTime
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.core.sequence import Topology

CHUNK_BITS = 2**28
"""How much of the product is held at a time (some 2 to 4 times this in memory)."""


def prove_product(topology: Topology, period: int, scale: int, bits: int) -> None:
    """Compare every entry of the product with 1/n, some columns at a time.

    Args:
        topology: Whose rounds are multiplied.
        period: How many of them.
        scale: The product of their common denominators, ∏ D_t.
        bits: Width of an entry, with 2^bits > n ∏ D_t.

    Raises:
        NotFiniteTime: If an entry is not 1/n; names it.

    """
    n = topology.n
    width = max(1, min(n, CHUNK_BITS // (n * bits)))
    chunks = [range(first, min(first + width, n)) for first in range(0, n, width)]
    rounds = [integer_round(topology.round(step)) for step in range(period)]
    for columns in chunks:
        rows = np.zeros(n, dtype=object)
        rows[columns.start : columns.stop] = [1 << (bits * c) for c in range(len(columns))]
        for self_weights, slots in rounds:
            mixed = self_weights * rows
            for receivers, senders, arcs in slots:
                mixed[receivers] += arcs * rows[senders]
            rows = mixed
        everywhere = scale * sum(1 << (bits * c) for c in range(len(columns)))
        for i in range(n):
            if n * rows[i] != everywhere:
                _blame(topology, i, columns, rows[i], scale, bits)


Slot = tuple[IntArray, IntArray, NDArray[Any]]
"""Receivers, senders and integer weights of arcs into different nodes."""


def integer_round(r: Round) -> tuple[NDArray[Any], list[Slot]]:
    """Self weights and arcs over the common denominator; every node's s-th arc is in slot s."""
    _, arcs, self_weights = r.over_common_denominator()
    heard = np.bincount(r.receivers, minlength=r.n)
    slot = np.arange(len(arcs)) - np.repeat(np.cumsum(heard) - heard, heard)
    order = np.argsort(slot, kind="stable")
    cuts: Any = np.cumsum(np.bincount(slot))[:-1] if len(slot) else []
    slots = [(r.receivers[s], r.senders[s], arcs[s].astype(object)) for s in np.split(order, cuts)]
    return self_weights.astype(object), slots


def _blame(topology: Topology, i: int, columns: range, row: int, scale: int, bits: int) -> None:
    for j in columns:
        entry = Fraction((row >> (bits * (j - columns.start))) & ((1 << bits) - 1), scale)
        if entry != Fraction(1, topology.n):
            raise NotFiniteTime(
                f"{topology.spec}, n={topology.n}: after one period node {i} holds {entry} of "
                f"node {j}'s value instead of 1/{topology.n}"
            )
