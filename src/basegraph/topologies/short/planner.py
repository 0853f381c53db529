"""Which construction is shortest for n nodes and k neighbors: dynamic programming with memo.

A plan says how one level is put together; its blocks have plans of their own. It is found with
integers only and in a fixed order, so that every rank of a job finds the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from basegraph.topologies.analysis.properties import shortest_possible
from basegraph.topologies.core.round import IntArray
from basegraph.topologies.paper.base import base_length
from basegraph.topologies.short.block_merge import merge_degree
from basegraph.topologies.short.corner_middle import has_room
from basegraph.topologies.short.euclid import euclid_length
from basegraph.topologies.short.laid_table import LAID
from basegraph.topologies.short.layout import Runs
from basegraph.topologies.short.plans import (
    BasePlan,
    EuclidPlan,
    LaidMixPlan,
    MergePlan,
    MixPlan,
    Plan,
    ProductPlan,
)

ALL_SIZES = 128
"""Up to this many nodes every block size is considered; beyond, these times powers of k+1."""
KEPT = 512
"""Up to this many nodes the best plan itself is looked for and kept, whatever is asked."""
LARGE = 2048
"""Up to this many nodes rows and columns are laid out to see if they leave room; beyond, a
sufficient condition on their sizes decides."""
PARTITIONS = 40
"""How many partitions, into rows and into columns, are laid out."""
TRIED = 12
"""How many ends of a line are tried then."""


@lru_cache(maxsize=2**16)
def best_plan(n: int, k: int) -> Plan:
    """The plan with the fewest rounds; 0 rounds for a single node."""
    plan = _search(n, k, base_length(n, k) + 1)
    assert plan is not None  # base itself, if nothing else
    return plan


def plan_below(n: int, k: int, below: int) -> Plan | None:
    """The best plan, where it has fewer rounds than `below`; for large n cheaper to ask for."""
    if n > KEPT:
        return _search(n, k, below)
    plan = best_plan(n, k)
    return plan if plan.rounds < below else None


def length(n: int, k: int) -> int:
    """The rounds of the best plan.

    >>> [length(n, 1) for n in (6, 25, 48)], [length(25, k) for k in (2, 3, 4)]
    ([3, 7, 6], [4, 3, 2])
    """
    return best_plan(n, k).rounds


def takes_at_most(rounds: int, n: int, k: int) -> bool:
    """Whether the best plan has at most so many rounds."""
    return plan_below(n, k, rounds + 1) is not None


@lru_cache(maxsize=2**16)
def _search(n: int, k: int, below: int) -> Plan | None:
    bound = shortest_possible(n, k)
    if bound >= below:
        return None
    if n <= k + 1:
        return BasePlan(bound, n, k)
    known: list[Plan] = [BasePlan(base_length(n, k), n, k)]
    if k == 1:
        known.append(EuclidPlan(euclid_length(n), n))
    shortest = min(known, key=lambda plan: plan.rounds)
    best = shortest if shortest.rounds < below else None
    for search in (best_merge, best_mix, _best_product):
        limit = best.rounds if best else below
        if limit > bound:
            best = search(n, k, limit) or best
    return best


# -- product ---------------------------------------------------------------------------------------


def _best_product(n: int, k: int, below: int) -> ProductPlan | None:
    """Groups of q run the best plan for q side by side, then p groups the one for p across."""
    best = None
    for p in range(2, ALL_SIZES + 1):
        q = n // p
        if p * q == n and q > 1:
            inner = plan_below(q, k, below - length(p, k))
            if inner:
                below = length(p, k) + inner.rounds
                best = ProductPlan(below, inner=q, outer=p, k=k)
    return best


# -- block-merge -----------------------------------------------------------------------------------


def best_merge(n: int, k: int, below: int) -> MergePlan | None:
    """The shortest block-merge of fewer rounds than `below`."""
    if k == 1:
        return None
    for rounds in range(shortest_possible(n, k), below):
        for sizes in _mergeable(n, k, rounds - 1):
            if merge_degree(sizes) <= k:
                return MergePlan(rounds, sizes, k)
    return None


def _mergeable(n: int, k: int, rounds: int) -> Iterator[tuple[int, ...]]:
    """Partitions of n into 2 .. k+1 blocks that average in so many rounds, largest block first."""
    for count in range(2, min(k // 2 + 1, n) + 1):  # balanced: always valid
        small, larger = divmod(n, count)
        if all(takes_at_most(rounds, size, k) for size in {small, small + (larger > 0)}):
            yield (small + 1,) * larger + (small,) * (count - larger)
    known = _sizes(rounds, k, min(ALL_SIZES, n - 1))
    allowed = set(known)
    for a in known:
        if n - a <= a < n and n - a in allowed:
            yield a, n - a
    if n <= ALL_SIZES:
        for count in range(3, min(k + 1, n) + 1):
            for others in combinations_with_replacement(known, 2) if count == 3 else ():
                if 0 < n - sum(others) <= others[1] and n - sum(others) in allowed:
                    yield *others, n - sum(others)
            for a in known if count > 3 else ():
                for larger in range(1, count):
                    rest, left = divmod(n - a * larger, count - larger)
                    if not left and 0 < rest < a and rest in allowed:
                        yield (a,) * larger + (rest,) * (count - larger)


@lru_cache(maxsize=1024)
def _sizes(rounds: int, k: int, largest: int = ALL_SIZES) -> tuple[int, ...]:
    """Block sizes, up to `largest` times a power of k+1, that average in so many rounds."""
    found = set()
    for power in range(rounds + 1):
        scale = (k + 1) ** power
        for size in range(1, min(largest, (k + 1) ** (rounds - power)) + 1):
            if size * scale not in found and takes_at_most(rounds - power, size, k):
                found.add(size * scale)
    return tuple(sorted(found, reverse=True))


# -- block-mix -------------------------------------------------------------------------------------


def best_mix(n: int, k: int, below: int) -> MixPlan | LaidMixPlan | None:
    """The shortest block-mix of fewer rounds than `below`, rows and columns about equally long."""
    if k == 1 and n in LAID:
        laid = _laid_out(n)
        return laid if laid.rounds < below else None
    for rounds in range(shortest_possible(n, k), below):
        most = (k + 1) ** (rounds - 1)
        if 2 * k * most < n or (n > LARGE and most < 3 * n):
            continue
        for inside in range((rounds - 1) // 2, 0, -1):
            across = rounds - 1 - inside
            if across - inside > 5 or (k + 1) ** across >= n:
                continue
            if n > LARGE:
                blocks = _roomy(n, k, inside, across)
            else:
                blocks = _valid(n, k, _partitions(n, k, inside), _partitions(n, k, across))
            if blocks:
                return MixPlan(rounds, *blocks, k)
    return None


def _laid_out(n: int) -> LaidMixPlan:
    """The block-mix with one neighbor that the table knows."""
    rows, columns, turn = LAID[n]
    inside, across = (max(length(size, 1) for size, _ in runs) for runs in (rows, columns))
    return LaidMixPlan(inside + 1 + across, rows, columns, turn)


def _roomy(n: int, k: int, inside: int, across: int) -> tuple[Runs, Runs] | None:
    """Rows and columns that need not be laid out: b c / n ≥ deg(b) deg(c) - 1 for all blocks.

    In a line the two ends have degree 1 and all others, here of the largest size, degree 2.
    """
    rows = _between_ends(n, k, inside, -(-n // (k + 1) ** across))
    columns = _between_ends(n, k, across, -(-n // (k + 1) ** inside))
    return (rows, columns) if rows and columns else None


@lru_cache(maxsize=4096)
def _between_ends(n: int, k: int, rounds: int, least: int) -> Runs | None:
    """n as blocks of (k+1)^rounds and at most two others at the ends, of at least `least`."""
    largest = (k + 1) ** rounds
    copies, rest = divmod(n, largest)
    if rest == 0:
        return ((largest, copies),)
    if rest >= least and takes_at_most(rounds, rest, k):
        return ((largest, copies), (rest, 1))
    tried = 0
    for total, left in ((rest, copies), (rest + largest, copies - 1)):
        for one in _sizes(rounds, k):
            other = total - one
            if least <= other <= one < largest:
                tried += 1
                if takes_at_most(rounds, other, k):
                    return ((one, 1), (largest, left), (other, 1))
                if tried >= TRIED:
                    return None
    return None


def _valid(
    n: int, k: int, rows: tuple[Runs, ...], columns: tuple[Runs, ...]
) -> tuple[Runs, Runs] | None:
    """The first partition into rows, with the first one into columns, that leaves room."""
    by_length: dict[int, list[Runs]] = {}
    for partition in columns:
        by_length.setdefault(_count(partition), []).append(partition)
    for row in rows:
        for width, group in by_length.items():
            if 2 * (_count(row) - 1) * (width - 1) > k * n:
                continue  # more edges than the nodes can serve
            starts, stacked = _starts(row), np.stack([_starts(column) for column in group])
            # The smallest rows are at the ends: what fails mostly fails there.
            fits = has_room(starts[:2], stacked, n, k) & has_room(starts[-2:], stacked, n, k)
            fits[fits] = has_room(starts, stacked[fits], n, k)
            if fits.any():
                return row, group[int(np.argmax(fits))]
    return None


def _count(partition: Runs) -> int:
    return sum(copies for _, copies in partition)


def _starts(partition: Runs) -> IntArray:
    sizes = np.repeat([size for size, _ in partition], [copies for _, copies in partition])
    return np.concatenate([[0], np.cumsum(sizes)])


@lru_cache(maxsize=4096)
def _partitions(n: int, k: int, rounds: int) -> tuple[Runs, ...]:
    """Promising partitions of n into few blocks that average in so many rounds.

    All of the largest size (k+1)^rounds but up to three, the smaller ones towards the ends.
    """
    sizes = _sizes(rounds, k)
    largest, allowed = sizes[0], set(sizes)
    fewest = -(-n // largest)
    found: set[tuple[int, tuple[int, ...]]] = set()
    for count in (fewest, fewest + 1):
        for others in range(min(3, count) + 1):
            rest = n - (count - others) * largest
            for smaller in _sums(rest, others, sizes, allowed):
                found.add((count - others, smaller))
    ranked = sorted(
        found, key=lambda p: (p[0] + len(p[1]), [-size for size in reversed(p[1])], -p[0])
    )
    lines: dict[Runs, None] = {}
    for copies, smaller in ranked[:PARTITIONS]:
        whole = ((largest, copies),) if copies else ()
        tail = tuple((size, 1) for size in smaller)
        lines[whole + tail] = None
        if len(tail) > 1:
            lines[tail[-2:-1] + whole + tail[:-2] + tail[-1:]] = None
    return tuple(line for line in lines if _count(line) > 1)


def _sums(
    total: int, count: int, sizes: tuple[int, ...], allowed: set[int]
) -> Iterator[tuple[int, ...]]:
    """`count` sizes below the largest, descending, that sum to `total`."""
    if count == 0:
        if total == 0:
            yield ()
    elif count == 1:
        if total in allowed and total < sizes[0]:
            yield (total,)
    else:
        for size in sizes[1:]:
            if size * count < total:
                return
            for rest in _sums(total - size, count - 1, sizes, allowed):
                if rest[0] <= size:
                    yield size, *rest
