"""Search for rows and columns of block-mix by corners, and write them as a table.

    python scripts/search_corners.py --degree 1 --nodes 2:1500 2047 4095 8191 --out TABLE
    python scripts/search_corners.py --degree 2 --nodes 2:400 --flips --out TABLE

TABLE is src/basegraph/topologies/short/corner_mixes_k2.json, for other degrees accordingly; with
k = 1 nothing was found that the planner does not find itself by now.

For every n in turn, every number of rounds from the lower bound on and every split of it: rows are
blocks of the largest size (k+1)^a and up to three others from the sizes that are known to average
in a rounds, the smallest at the two ends; columns the same. The exact test `has_room` accepts a
pair. With --flips, for each pair whose ends have room, annealing over the corners that round to the
second nearest integer follows. What is shorter than what `short` knows without the table goes into
it. What is written is proved by the tests. Deterministic; an existing table is gone on from. The
first command took 5 minutes on a busy machine. The second one, and the same for k = 3, 4 and 5,
were stopped after little more than a minute each beyond 128 nodes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from random import Random

import numpy as np

from basegraph.topologies.analysis.bounds import shortest_possible
from basegraph.topologies.core.round import IntArray
from basegraph.topologies.core.tables import TableFormat, read_table, write_table
from basegraph.topologies.short.corner_middle import Corners, has_room, has_room_flipped, rounded
from basegraph.topologies.short.layout import Runs
from basegraph.topologies.short.planner import default_planner
from basegraph.topologies.short.searched import CornerMix

Line = tuple[int, ...]
"""Block sizes in order."""

OTHERS = 3
"""How many blocks are smaller than the largest size."""
MORE_BLOCKS = 2
"""How many blocks more than the fewest."""
LINES = 300
"""How many lines of blocks are tried, for rows and for columns."""
VISITED = 200_000
"""How many sets of smaller blocks are looked at for a line."""
FLIPPED_PAIRS = 12
"""How many pairs of lines get an annealing of their corners."""


def table_format(degree: int) -> TableFormat:
    """What the table of this degree says about itself."""
    nodes = "2:1500 2047 4095 8191" if degree == 1 else "2:400 --flips"
    return TableFormat(
        about=f"Block-mix by corners with k = {degree} that is shorter than what `short` finds.",
        fields={
            "rows": "the blocks of the first stage in order, as [size, how many of it]",
            "columns": "the blocks of the last stage, in the same form",
            "flipped": "the corners [a, b] that round to the second nearest integer",
        },
        command=f"python scripts/search_corners.py --degree {degree} --nodes {nodes} "
        f"--out src/basegraph/topologies/short/corner_mixes_k{degree}.json",
    )


class Lengths:
    """The fewest rounds known, by number of nodes, and which sizes are quick enough for a block."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.planner = default_planner()
        self.better: dict[int, int] = {}
        """What this search has found."""

    def of(self, n: int) -> int:
        """The fewest rounds known for n nodes."""
        return self.better.get(n) or self.planner.length(n, self.k)

    def at_most(self, rounds: int, n: int) -> bool:
        """Whether n nodes average in so many rounds, for all that is known."""
        if shortest_possible(n, self.k) > rounds:
            return False
        if n in self.better:
            return self.better[n] <= rounds
        return self.planner.takes_at_most(rounds, n, self.k) or (
            n % (self.k + 1) == 0 and self.at_most(rounds - 1, n // (self.k + 1))
        )

    def sizes(self, rounds: int, below: int) -> list[int]:
        """The sizes below this one that average in so many rounds, descending."""
        largest = (self.k + 1) ** rounds
        sizes = [b for b in range(min(largest, below - 1, 512), 0, -1) if self.at_most(rounds, b)]
        power = 1
        while (self.k + 1) ** power * 512 < largest:
            power += 1
            scale = (self.k + 1) ** power
            sizes += [scale * b for b in range(1, 513) if self.at_most(rounds - power, b)]
        return sorted({b for b in sizes if b < below and b <= largest}, reverse=True)


def lines(n: int, k: int, rounds: int, sizes: list[int]) -> list[Line]:
    """n as a line of blocks, few of them and large ends first."""
    largest = (k + 1) ** rounds
    smaller = [b for b in sizes if b < largest]
    allowed = set(smaller)
    fewest = -(-n // largest)
    candidates: list[tuple[int, Line]] = []
    for count in range(fewest, fewest + MORE_BLOCKS + 1):
        for others in range(min(OTHERS, count) + 1):
            rest = n - (count - others) * largest
            if rest < others or count < 2:
                continue
            for visited, chosen in enumerate(sums(rest, others, smaller, allowed)):
                if visited > VISITED:
                    break
                candidates.append((count - others, chosen))
    ranked = sorted(
        set(candidates), key=lambda c: (c[0] + len(c[1]), [-b for b in reversed(c[1])], -c[0])
    )
    ordered: dict[Line, None] = {}
    for copies, chosen in ranked[:LINES]:
        whole = (largest,) * copies
        if len(chosen) > 1:  # the smallest two at the ends
            ordered[chosen[-2:-1] + whole + chosen[:-2] + chosen[-1:]] = None
        ordered[whole + chosen] = None
    return [line for line in ordered if len(line) > 1]


def sums(total: int, count: int, sizes: list[int], allowed: set[int]) -> Iterator[Line]:
    """`count` of these sizes, descending, that sum to `total`."""
    if count == 0:
        if total == 0:
            yield ()
    elif count == 1:
        if total in allowed:
            yield (total,)
    else:
        for at, size in enumerate(sizes):
            if size * count < total:
                return
            if size <= total - count + 1:
                for rest in sums(total - size, count - 1, sizes[at:], allowed):
                    if rest[0] <= size:
                        yield size, *rest


def starts(line: Line) -> IntArray:
    """Where the blocks start, and n."""
    return np.concatenate([[0], np.cumsum(line)])


def flips_with_room(rows: Line, columns: Line, k: int, random: Random) -> Corners | None:
    """Corners to round the other way so that the middle has room; None where annealing finds none.

    The cost of a cell is how many nodes too few it has for its edges.
    """
    n = sum(rows)
    down, along = starts(rows), starts(columns)
    whole, rest = rounded(down[:, None], along[None, :], n)
    h, g = len(rows), len(columns)
    free = [(a, b) for a in range(1, h) for b in range(1, g) if rest[a, b]]

    def cost_of(i: int, j: int) -> float:
        count = int(whole[i + 1, j + 1] - whole[i, j + 1] - whole[i + 1, j] + whole[i, j])
        weights = [
            w for w in (-rest[i, j], rest[i, j + 1], rest[i + 1, j], -rest[i + 1, j + 1]) if w > 0
        ]
        if count <= 0:
            return 4.0 * (-count) + 2.0 * len(weights)
        loads, served = [0] * count, [0] * count
        for turn, weight in enumerate(weights):
            loads[turn % count] += int(weight)
            served[turn % count] += 1
        over = [max(0.0, load / n - 1) for load in loads]
        return 2 * sum(over) + sum(max(0, edges - k) for edges in served)

    costs = {(i, j): cost_of(i, j) for i in range(h) for j in range(g)}
    total = sum(costs.values())
    flipped: set[tuple[int, int]] = set()
    steps = 30 * len(free)
    for step in range(steps):
        if total < 1e-9:
            corners = tuple(sorted(flipped))
            return corners if has_room_flipped(down, along, n, k, corners) else None
        bad = [cell for cell, cost in costs.items() if cost]
        i, j = bad[random.randrange(len(bad))]
        a, b = i + random.randrange(2), j + random.randrange(2)
        if not (0 < a < h and 0 < b < g) or not rest[a, b]:
            a, b = free[random.randrange(len(free))]
        way = 1 if rest[a, b] > 0 else -1
        whole[a, b] += way
        rest[a, b] -= way * n
        around = [(i, j) for i in (a - 1, a) for j in (b - 1, b)]
        before = {cell: costs[cell] for cell in around}
        for cell in around:
            costs[cell] = cost_of(*cell)
        change = sum(costs[cell] - before[cell] for cell in around)
        temperature = 0.5 * (1 - step / steps) + 1e-3
        if change <= temperature * random.expovariate(1):
            total += change
            flipped ^= {(a, b)}
        else:
            costs.update(before)
            whole[a, b] -= way
            rest[a, b] += way * n
    return None


def search(n: int, k: int, rounds: int, known: Lengths, flips: bool) -> CornerMix | None:
    """Rows and columns of a block-mix by corners of so many rounds."""
    for inside in range((rounds - 1) // 2, 0, -1):
        across = rounds - 1 - inside
        if (k + 1) ** across >= n or across - inside > 5 or 2 * k * (k + 1) ** (rounds - 1) < n:
            continue
        rows = lines(n, k, inside, known.sizes(inside, n))
        columns = lines(n, k, across, known.sizes(across, n)) if rows else []
        groups = [list(group) for _, group in groupby(sorted(columns, key=len), key=len)]
        pairs = [
            (row, group)
            for row in rows
            for group in groups
            if 2 * (len(row) - 1) * (len(group[0]) - 1) <= k * n
        ]
        for row, group in pairs:
            column = first_with_room(row, group, k)
            if column:
                return CornerMix(runs(row), runs(column))
        random = Random(n)
        near = [(row, column) for row, group in pairs for column in group[:2]] if flips else []
        for row, column in near[:FLIPPED_PAIRS]:
            corners = flips_with_room(row, column, k, random)
            if corners is not None:
                return CornerMix(runs(row), runs(column), corners)
    return None


def first_with_room(row: Line, group: list[Line], k: int) -> Line | None:
    """The first of these columns, all of the same number of blocks, that leave room."""
    n = sum(row)
    edge, stacked = starts(row), np.stack([starts(line) for line in group])
    fits = np.ones(len(group), dtype=bool)
    for some in (edge[:2], edge[-2:], edge[1:3], edge):  # what fails mostly fails at the ends
        fits[fits] = has_room(some, stacked[fits], n, k)
        if not fits.any():
            return None
    return group[int(np.argmax(fits))]


def runs(line: Line) -> Runs:
    """Equal sizes in a row, counted."""
    return tuple((size, len(list(copies))) for size, copies in groupby(line))


def main() -> None:
    """Search, report to stdout, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--degree", type=int, default=1)
    parser.add_argument("--nodes", nargs="+", required=True, help="numbers, or ranges such as 2:9")
    parser.add_argument("--flips", action="store_true", help="round corners the other way, too")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    started = time.monotonic()
    k = options.degree
    known = Lengths(k)
    entries = read_table(options.out)
    for nodes in options.nodes:
        first, _, last = nodes.partition(":")
        for n in range(int(first), int(last or first) + 1):
            parts = [p for p in range(2, n) if p * p <= n and n % p == 0]
            length = min([known.of(n), *(known.of(p) + known.of(n // p) for p in parts)])
            for rounds in range(shortest_possible(n, k), length):
                mix = search(n, k, rounds, known, options.flips)
                if mix:
                    print(f"n = {n}: {rounds} rounds instead of {length}", flush=True)
                    entries[n] = mix._asdict() if mix.flipped else mix._asdict() | {"flipped": ()}
                    length = rounds
                    write_table(options.out, table_format(k), entries)
                    break
            if length < known.planner.length(n, k):
                known.better[n] = length
    write_table(options.out, table_format(k), entries)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
