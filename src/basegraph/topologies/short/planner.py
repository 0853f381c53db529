"""Which construction is shortest for n nodes and k neighbors: dynamic programming with memo.

A plan says how one level is put together; its blocks have plans of their own. It is found with
integers only and in a fixed order, so that every rank of a job finds the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import combinations_with_replacement
from types import MappingProxyType

from basegraph.topologies.analysis.bounds import shortest_possible
from basegraph.topologies.paper._base import base_length
from basegraph.topologies.short._block_merge import MOST_MERGED, merge_degree
from basegraph.topologies.short._euclid import euclid_length
from basegraph.topologies.short.free_mix import FreeMix
from basegraph.topologies.short.layout import Runs
from basegraph.topologies.short.partitions import (
    first_with_room,
    leaves_room,
    lines_of_few,
    promising_partitions,
)
from basegraph.topologies.short.plans import (
    BasePlan,
    EuclidPlan,
    FreeMixPlan,
    LaidMixPlan,
    MergePlan,
    MixPlan,
    Plan,
    ProductPlan,
)
from basegraph.topologies.short.searched import (
    CornerMix,
    LaidMix,
    corner_mixes,
    free_mixes,
    laid_mixes,
)

ALL_SIZES = 128
"""Up to this many nodes every block size is considered; beyond, these times powers of k+1."""
KEPT = 512
"""Up to this many nodes the best plan itself is looked for and kept, whatever is asked."""
LARGE = 2048
"""Up to this many nodes rows and columns are laid out to see if they leave room; beyond, a
sufficient condition on their sizes decides."""
TRIED = 12
"""How many ends of a line are tried then, beyond the sizes that are known."""


class Planner:
    """Plans for all n and k, remembered while the planner lives.

    Args:
        laid: Number of nodes -> the block-mix that was searched for, with one neighbor.
        corners: k -> number of nodes -> the rows and columns that were searched for.
        free: k -> number of nodes -> the rows, middle and columns that were searched for.

    What was searched for is used as it is, instead of looking for rows and columns.

    """

    def __init__(
        self,
        laid: Mapping[int, LaidMix],
        corners: Mapping[int, Mapping[int, CornerMix]] = MappingProxyType({}),
        free: Mapping[int, Mapping[int, FreeMix]] = MappingProxyType({}),
    ) -> None:
        self.laid = laid
        self.corners = corners
        self.free = free
        self.best_plan = lru_cache(maxsize=2**16)(self._best_plan)
        self._search = lru_cache(maxsize=2**16)(self._search_plan)
        self._sizes = lru_cache(maxsize=1024)(self._block_sizes)
        self._lines = lru_cache(maxsize=4096)(self._few_others)
        self._partitions = lru_cache(maxsize=4096)(self._promising_partitions)

    def _best_plan(self, n: int, k: int) -> Plan:
        """The plan with the fewest rounds; 0 rounds for a single node."""
        plan = self._search(n, k, base_length(n, k) + 1)
        assert plan is not None  # base itself, if nothing else
        return plan

    def plan_below(self, n: int, k: int, below: int) -> Plan | None:
        """The best plan, where it has fewer rounds than `below`; for large n cheaper to ask for."""
        if n > KEPT:
            return self._search(n, k, below)
        plan = self.best_plan(n, k)
        return plan if plan.rounds < below else None

    def length(self, n: int, k: int) -> int:
        """The rounds of the best plan.

        >>> plan = default_planner()
        >>> [plan.length(n, 1) for n in (6, 25, 48)], [plan.length(25, k) for k in (2, 3, 4)]
        ([3, 7, 6], [4, 3, 2])
        """
        return self.best_plan(n, k).rounds

    def takes_at_most(self, rounds: int, n: int, k: int) -> bool:
        """Whether the best plan has at most so many rounds."""
        return self.plan_below(n, k, rounds + 1) is not None

    def _search_plan(self, n: int, k: int, below: int) -> Plan | None:
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
        for search in (self.best_merge, self.best_mix, self._best_product):
            limit = best.rounds if best else below
            if limit > bound:
                best = search(n, k, limit) or best
        return best

    # -- product ---------------------------------------------------------------------------------

    def _best_product(self, n: int, k: int, below: int) -> ProductPlan | None:
        """Groups of q run the best plan for q side by side, then p groups the one for p across."""
        best = None
        for p in range(2, ALL_SIZES + 1):
            q = n // p
            if p * q == n and q > 1:
                inner = self.plan_below(q, k, below - self.length(p, k))
                if inner:
                    below = self.length(p, k) + inner.rounds
                    best = ProductPlan(below, inner=q, outer=p, k=k)
        return best

    # -- block-merge -----------------------------------------------------------------------------

    def best_merge(self, n: int, k: int, below: int) -> MergePlan | None:
        """The shortest block-merge of fewer rounds than `below`."""
        if k == 1 or n > MOST_MERGED:
            return None
        for rounds in range(shortest_possible(n, k), below):
            for sizes in self._mergeable(n, k, rounds - 1):
                if merge_degree(sizes) <= k:
                    return MergePlan(rounds, sizes, k)
        return None

    def _mergeable(self, n: int, k: int, rounds: int) -> Iterator[tuple[int, ...]]:
        """Partitions of n into 2 .. k+1 blocks that average in so many rounds, largest first."""
        for count in range(2, min(k // 2 + 1, n) + 1):  # balanced: always valid
            small, larger = divmod(n, count)
            if all(self.takes_at_most(rounds, size, k) for size in {small, small + (larger > 0)}):
                yield (small + 1,) * larger + (small,) * (count - larger)
        known = self._sizes(rounds, k, min(ALL_SIZES, n - 1))
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

    def _block_sizes(self, rounds: int, k: int, largest: int = ALL_SIZES) -> tuple[int, ...]:
        """Block sizes, up to `largest` times a power of k+1, that average in so many rounds."""
        sizes = set()
        for power in range(rounds + 1):
            scale = (k + 1) ** power
            for size in range(1, min(largest, (k + 1) ** (rounds - power)) + 1):
                if size * scale not in sizes and self.takes_at_most(rounds - power, size, k):
                    sizes.add(size * scale)
        return tuple(sorted(sizes, reverse=True))

    # -- block-mix -------------------------------------------------------------------------------

    def best_mix(self, n: int, k: int, below: int) -> MixPlan | LaidMixPlan | FreeMixPlan | None:
        """The shortest block-mix of fewer rounds than `below`, rows about as long as columns."""
        searched = self._searched_for(n, k)
        if searched:
            return searched if searched.rounds < below else None
        for rounds in range(shortest_possible(n, k), below):
            most = (k + 1) ** (rounds - 1)
            if 2 * k * most < n or (n > LARGE and most < 3 * n):
                continue
            for inside in range((rounds - 1) // 2, 0, -1):
                across = rounds - 1 - inside
                if across - inside > 5 or (k + 1) ** across >= n:
                    continue
                if n > LARGE:
                    blocks = self._roomy(n, k, inside, across)
                else:
                    rows, columns = (self._partitions(n, k, part) for part in (inside, across))
                    blocks = first_with_room(n, k, rows, columns)
                if blocks:
                    return MixPlan(rounds, *blocks, k)
        return None

    def _searched_for(self, n: int, k: int) -> MixPlan | LaidMixPlan | FreeMixPlan | None:
        """The shortest block-mix that the tables know; None where they know none."""

        def rounds(rows: Runs, columns: Runs) -> int:
            return 1 + sum(
                max(self.length(size, k) for size, _ in runs) for runs in (rows, columns)
            )

        plans: list[MixPlan | LaidMixPlan | FreeMixPlan] = []
        if k == 1 and n in self.laid:
            laid = self.laid[n]
            plans.append(LaidMixPlan(rounds(laid.rows, laid.columns), *laid))
        if n in self.corners.get(k, {}):
            corners = self.corners[k][n]
            length = rounds(corners.rows, corners.columns)
            plans.append(MixPlan(length, corners.rows, corners.columns, k, corners.flipped))
        if n in self.free.get(k, {}):
            mix = self.free[k][n]
            plans.append(FreeMixPlan(mix.rounds(lambda size: self.length(size, k)), mix, k))
        return min(plans, key=lambda plan: plan.rounds, default=None)

    def _roomy(self, n: int, k: int, inside: int, across: int) -> tuple[Runs, Runs] | None:
        """Rows and columns that need not be laid out: b c / n ≥ deg(b) deg(c) - 1 for all blocks.

        In a line the two ends have degree 1 and all others degree 2.
        """
        rows = self._lines(n, k, inside, -(-n // (k + 1) ** across))
        columns = self._lines(n, k, across, -(-n // (k + 1) ** inside))
        for row in rows:
            for column in columns:
                if leaves_room(row, column, n):
                    return row, column
        return None

    def _few_others(self, n: int, k: int, rounds: int, least: int) -> tuple[Runs, ...]:
        """n as a line of blocks of (k+1)^rounds and at most three others, of at least `least`.

        Two others stand at the ends; a third one stands beside the last.
        """
        largest = (k + 1) ** rounds
        copies, rest = divmod(n, largest)
        if rest == 0:
            return (((largest, copies),),)
        if rest >= least and self.takes_at_most(rounds, rest, k):
            return (((largest, copies), (rest, 1)),)
        sizes = tuple(b for b in self._sizes(rounds, k) if least <= b < largest)
        lines = lines_of_few(rest, copies, largest, sizes)
        if lines:
            return lines
        tried = 0
        for total, left in ((rest, copies), (rest + largest, copies - 1)):
            for one in sizes:
                other = total - one
                if least <= other <= one:
                    tried += 1
                    if self.takes_at_most(rounds, other, k):
                        return (((one, 1), (largest, left), (other, 1)),)
                    if tried >= TRIED:
                        return ()
        return ()

    def _promising_partitions(self, n: int, k: int, rounds: int) -> tuple[Runs, ...]:
        """Promising partitions of n into few blocks that average in so many rounds."""
        return promising_partitions(n, self._sizes(rounds, k))


@cache
def default_planner() -> Planner:
    """The planner that knows all tables, made once."""
    return Planner(laid_mixes(), corner_mixes(), free_mixes())
