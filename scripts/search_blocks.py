"""Search for block-mix with one neighbor that is shorter than anything else, and write a table.

    python scripts/search_blocks.py --nodes 512 1511 --out TABLE

TABLE is src/basegraph/topologies/short/laid_mixes.json.

For every n in turn: rows and columns of sizes that are known to average in so few rounds, few
blocks of few different sizes first, and the first turns at which `lay_out` finds a middle for them.
What is written is proved by the tests. Deterministic; prints how long it took: the command above 17
minutes of CPU time, mostly for n where nothing is found.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import groupby
from math import gcd
from pathlib import Path

from basegraph.topologies.analysis.bounds import shortest_possible
from basegraph.topologies.core.tables import TableFormat, write_table
from basegraph.topologies.short.layout import Runs, lay_out
from basegraph.topologies.short.planner import Planner

Sizes = tuple[int, ...]

FORMAT = TableFormat(
    about="Block-mix with one neighbor a round that is shorter than any other known sequence.",
    fields={
        "rows": "the blocks of the first stage in order, as [size, how many of it]",
        "columns": "the blocks of the last stage, in the same form",
        "turn": "the turn at which layout.lay_out finds the middle round for them",
    },
    command="python scripts/search_blocks.py --nodes 512 1511 "
    "--out src/basegraph/topologies/short/laid_mixes.json",
)

MORE_BLOCKS = 6
"""How many blocks more than the fewest, rows and columns together."""
PARTITIONS = 24
"""How many partitions into rows, and into columns, of each number of blocks."""
PAIRS = 60
"""How many pairs of them."""
TURNS = 6
"""How many turns for each pair."""
VISITED = 20_000
"""How many beginnings of partitions are looked at."""
FOUND = 1000
"""How many partitions the best ones are taken from."""


def partitions(n: int, rounds: int, count: int, others: int, known: dict[int, int]) -> list[Sizes]:
    """n as `count` blocks that average in so many rounds, few different sizes first.

    A block of b nodes meets `others` blocks of the other kind and makes b pairs at most; a pair
    joins two of its cells, and only gcd(b, n) groups of cells can do without each other. So
    b + gcd(b, n) ≥ others.
    """
    quick = [b for b in range(min(n - 1, 2**rounds), 0, -1) if known.get(b, rounds + 1) <= rounds]
    sizes = [b for b in quick if b + gcd(b, n) >= others]
    found: list[Sizes] = []
    visited = 0

    def extend(rest: int, blocks: int, first: int, begun: Sizes) -> None:
        nonlocal visited
        visited += 1
        if len(found) >= FOUND or visited > VISITED:
            return
        if blocks == 0:
            if rest == 0:
                found.append(begun)
            return
        for at in range(first, len(sizes)):
            if sizes[at] * blocks < rest:
                return
            if rest - sizes[at] >= (blocks - 1) * sizes[-1]:
                extend(rest - sizes[at], blocks - 1, at, (*begun, sizes[at]))

    if sizes:
        extend(n, count, 0, ())
    found.sort(key=lambda blocks: (len(set(blocks)), -blocks[-1]))
    return found[:PARTITIONS]


def candidates(n: int, rounds: int, known: dict[int, int]) -> Iterator[tuple[Sizes, Sizes]]:
    """Rows and columns that take so many rounds with the middle, promising ones first."""
    for inside in range((rounds - 1) // 2, 0, -1):
        across = rounds - 1 - inside
        if 2**across >= n:
            return
        for more in range(MORE_BLOCKS + 1):
            for rows_more in range(more + 1):
                height = -(-n // 2**inside) + rows_more
                width = -(-n // 2**across) + more - rows_more
                if height < 2 or width < 2 or (height - 1) * (width - 1) > n:
                    continue
                rows = partitions(n, inside, height, width, known)
                columns = partitions(n, across, width, height, known)
                order = sorted((i + j, i, j) for i in range(len(rows)) for j in range(len(columns)))
                for _, i, j in order[:PAIRS]:
                    yield rows[i], columns[j]


def search(n: int, rounds: int, known: dict[int, int]) -> tuple[Sizes, Sizes, int] | None:
    """Rows, columns and turn of a block-mix of so many rounds."""
    for rows, columns in candidates(n, rounds, known):
        for turn in range(TURNS):
            if lay_out(rows, columns, turn) is not None:
                return rows, columns, turn
    return None


def runs(sizes: Sizes) -> Runs:
    """Equal sizes in a row, counted."""
    return tuple((size, len(list(copies))) for size, copies in groupby(sizes))


def main() -> None:
    """Search, report to stdout, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[512], help="up to this n; also")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    last, *also = options.nodes
    started = time.monotonic()
    planner = Planner(laid={})  # what is known without the table
    known = {1: 0}
    entries = {}
    for n in (*range(2, last + 1), *also):
        products = [known[p] + known[n // p] for p in range(2, n) if n % p == 0]
        known[n] = min([planner.length(n, 1), *products])
        for rounds in range(shortest_possible(n, 1), known[n]):
            mix = search(n, rounds, known)
            if mix:
                rows, columns, turn = mix
                print(f"n = {n}: {rounds} rounds instead of {known[n]}", flush=True)
                entries[n] = {"rows": runs(rows), "columns": runs(columns), "turn": turn}
                known[n] = rounds
                break
    write_table(options.out, FORMAT, entries)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
