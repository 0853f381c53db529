"""Which rows and columns are worth a search for their middle: candidates for search_free.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, groupby
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from basegraph.topologies.short._euclid import euclid
from basegraph.topologies.short.layout import Runs, sizes_of
from basegraph.topologies.short.planner import default_planner

Array = NDArray[Any]

LATE = (3, 5, 9)
"""Sizes of blocks that may be late."""
STAGES, CANDIDATES, MOST_CONDITIONS = 6, 6, 2.2
"""How many partitions for rows and for columns, and pairs of them, are tried automatically; how
many conditions there may be for each weight."""


class Stage(NamedTuple):
    """Rows or columns."""

    runs: Runs
    late: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Stage:
        """From such as 8x3,6,5*."""
        sizes: list[int] = []
        late = set()
        for part in text.split(","):
            size, _, copies = part.rstrip("*").partition("x")
            sizes += [int(size)] * int(copies or 1)
            if part.endswith("*"):
                late.add(int(size))
        runs = tuple((size, len(list(same))) for size, same in groupby(sizes))
        return cls(runs, tuple(sorted(late)))

    def conditions(self) -> Array:
        """(conditions, nodes): what the middle has to move, block by block and mate by mate."""
        sizes = sizes_of(self.runs)
        n = sum(sizes)
        lines = []
        first = 0
        for size in sizes:
            line = np.zeros(n)
            line[first : first + size] = 1
            lines.append(line)
            if size in self.late:
                last = euclid(size)[-1]
                for i, j in zip(last.receivers.tolist(), last.senders.tolist(), strict=True):
                    if i < j:
                        line = np.zeros(n)
                        line[[first + i, first + j]] = 1, -1
                        lines.append(line)
            first += size
        return np.array(lines)


def stages(n: int, k: int, rounds: int, most: int) -> list[Stage]:
    """Some partitions of n into at most so many blocks that take so many rounds, few blocks first.

    Late blocks are 3, 5 and 9 nodes where one round less is what they need, at most one of them.
    """
    planner = default_planner()
    largest = min(n - 1, (k + 1) ** rounds)
    quick = [b for b in range(largest, 0, -1) if planner.takes_at_most(rounds, b, k)]
    late = [b for b in LATE if k == 1 and b < n and euclid(b).period == rounds + 1]
    options: list[tuple[tuple[int, ...], Stage]] = []
    for postponed in (None, *late):
        rest = n - (postponed or 0)
        fewest = -(-rest // quick[0])
        for count in range(fewest, min(fewest + 2, most - (postponed is not None)) + 1):
            for sizes in partitions(rest, count, quick):
                blocks = sizes if postponed is None else (*sizes, postponed)
                if postponed in sizes:
                    continue
                runs = tuple((size, len(list(same))) for size, same in groupby(blocks))
                stage = Stage(runs, () if postponed is None else (postponed,))
                lines = len(blocks) + ((postponed or 0) // 2)
                options.append(((lines, len(set(sizes)), -blocks[-1]), stage))
    options.sort()
    return [stage for _, stage in options[:STAGES]]


def partitions(n: int, count: int, sizes: list[int]) -> Iterator[tuple[int, ...]]:
    """n as `count` of these descending sizes, three different ones at most."""
    for a, b, c in combinations_with_replacement(sizes, 3):
        if b == c != a:
            continue
        for more in range(count + 1) if a != b else (0,):
            for most in range(count - more + 1) if b != c else (0,):
                if a == b == c:
                    if a * count == n:
                        yield (a,) * count
                elif a == b:
                    if most and count - most and a * (count - most) + c * most == n:
                        yield (a,) * (count - most) + (c,) * most
                else:
                    last = count - more - most
                    if min(more, most, last) > 0 and a * more + b * most + c * last == n:
                        yield (a,) * more + (b,) * most + (c,) * last


def candidates(n: int, k: int, rounds: int) -> list[tuple[float, Stage, Stage, int]]:
    """Rows, columns and the number of middle rounds that make so many rounds, best chances first.

    The chance is judged by the number of conditions per weight. A block that meets too few others
    for its edges to connect them is left out.
    """
    chosen: dict[tuple[Stage, Stage, int], float] = {}
    for middle in (1, 2) if k == 1 else (1,):
        for inside in range((rounds - middle) // 2, 0, -1):
            across = rounds - middle - inside
            layers = max(k, middle)
            if (k + 1) ** across >= n:
                continue
            for rows in stages(n, k, inside, n):
                for columns in stages(n, k, across, n):
                    lines = [len(stage.conditions()) - 1 for stage in (rows, columns)]
                    ratio = lines[0] * lines[1] / (layers * (n // 2))
                    if ratio < MOST_CONDITIONS and connected(rows, columns, k, middle):
                        chosen[rows, columns, middle] = ratio
    ranked = sorted((ratio, *choice) for choice, ratio in chosen.items())
    return ranked[:CANDIDATES]


def connected(rows: Stage, columns: Stage, k: int, middle: int) -> bool:
    """Whether every block has edges enough to connect all of the other kind (Lemma 9)."""
    n = sum(sizes_of(rows.runs))
    reach = k if middle == 1 else 3
    return all(
        reach * size + gcd(size, n) >= sum(copies for _, copies in others.runs)
        for some, others in ((rows, columns), (columns, rows))
        for size, _ in some.runs
    )
