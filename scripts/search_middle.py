"""Search for middles of block-mix that keep disagreement small, and write them as a table.

    python scripts/search_middle.py --nodes 25 --steps 300000 --repeats 1 --seed 5 --out TABLE
    python scripts/search_middle.py --nodes 33 --steps 250000 --repeats 1 --seed 11 --out TABLE

TABLE is src/basegraph/topologies/steady/mixes.json, which these commands made from no file, in 140
and 74 seconds. (Of the seeds 1 to 5, for 25 nodes, the fifth gave the lowest: 0.1977 to 0.1993.)

For every n: rows and columns as short as they are known, a middle by `lay_out`, then simulated
annealing over where nodes stand and with whom they exchange, judged by D(0.05); weights are solved
for each. Where the table has an entry already, annealing goes on from there, so that another --seed
can only improve on it. Deterministic; prints how long it took.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from random import Random

import numpy as np
from search_blocks import TURNS, candidates

import basegraph as bg
from basegraph.topologies.core.round import FloatArray, IntArray, Round
from basegraph.topologies.core.tables import TableFormat, read_table, write_table
from basegraph.topologies.short.laid_middle import LaidMiddle
from basegraph.topologies.short.layout import lay_out
from basegraph.topologies.short.planner import default_planner
from basegraph.topologies.steady._solved_mix import AIM, MixParameters, far_blocks, solved_mix

RHO, MOMENTUM = 0.05, 0.9
HOT, WARM, COLD = 4e-4, 1e-4, 2e-5
"""Temperatures of annealing, in units of D: a fresh start, one from the table, the end."""
LEAST = 0.01
"""Weights of the middle stay so far from 0 and from 1."""

FORMAT = TableFormat(
    about="Block-mix with everybody busy in the middle, for small disagreement, D(0.05).",
    fields={
        "rows": "block sizes of the first stage; nodes are numbered row by row",
        "columns": "block sizes of the last stage",
        "place": "per node: where it stands when the nodes are counted column by column",
        "mate": "per node: with whom it exchanges in the middle round; itself: it idles",
    },
    command="python scripts/search_middle.py --nodes 25 --steps 300000 --repeats 1 --seed 5 "
    "--out TABLE, then --nodes 33 --steps 250000 --repeats 1 --seed 11; "
    "TABLE is src/basegraph/topologies/steady/mixes.json",
)

Pairs = tuple[IntArray, FloatArray]
"""A round: per node its partner (itself: none) and the weight."""


def pairs_of(r: Round) -> Pairs:
    """A round of pairs as arrays."""
    partner, weight = np.arange(r.n), np.zeros(r.n)
    partner[r.receivers], weight[r.receivers] = r.senders, r.weights
    return partner, weight


def pairs_disagreement(rounds: list[Pairs], n: int) -> float:
    """D(ρ), as `training_disagreement`, for rounds of pairs."""
    optima = np.eye(n) - 1 / n
    x, u = np.eye(2 * n, 3 * n)[:n], np.eye(2 * n, 3 * n)[n:]
    pull = np.concatenate([np.zeros((n, 2 * n)), optima], axis=1)
    for partner, weight in rounds:
        u = MOMENTUM * u + x - pull
        x = x - RHO * u
        x = x + weight[:, None] * (x[partner] - x)
    period = np.concatenate([x, u])
    steady = np.linalg.solve(np.eye(2 * n) - period[:, : 2 * n], period[:, 2 * n :])
    x, u = steady[:n], steady[n:]
    total = 0.0
    for partner, weight in rounds:
        u = MOMENTUM * u + x - optima
        x = x - RHO * u
        x = x + weight[:, None] * (x[partner] - x)
        total += float(np.vdot(x, x))
    return total / (n * len(rounds))


class Search:
    """Annealing over the middles of one pair of partitions."""

    def __init__(
        self, rows: tuple[int, ...], columns: tuple[int, ...], known: MixParameters | None
    ) -> None:
        self.n = sum(rows)
        self.rows, self.columns = rows, columns
        inside, across = map(far_blocks, (rows, columns))
        self.inside, self.across = ([pairs_of(r) for r in side] for side in (inside, across))
        self.row, self.column = (np.repeat(np.arange(len(s)), s) for s in (rows, columns))
        layouts = (lay_out(rows, columns, turn) for turn in range(TURNS))
        start = LaidMiddle(next(layout for layout in layouts if layout), redundant=True)
        self.mate = pairs_of(start.round())[0]
        self.place = np.array([start.place(i) for i in range(self.n)])
        self.hot = HOT
        if known and (known.rows, known.columns) == (rows, columns):  # go on from there
            self.place, self.mate, self.hot = np.array(known.place), np.array(known.mate), WARM

    def weights(self) -> FloatArray | None:
        """Of the middle: as `middle_weights`, in floating point; None: too close to 0 or 1."""
        height, width = len(self.rows), len(self.columns)
        one = np.flatnonzero(self.mate > np.arange(self.n))
        two = self.mate[one]
        row, column = self.row, self.column[self.place]
        missing = np.outer(self.rows, self.columns) / self.n
        np.subtract.at(missing, (row, column), 1)
        moves = np.zeros((height * width, len(one)))
        number = np.arange(len(one))
        for here, there, moved in ((one, one, -1), (two, two, -1), (one, two, 1), (two, one, 1)):
            np.add.at(moves, (row[here] * width + column[there], number), moved)
        aim = float(AIM)
        left = missing.ravel() - moves.sum(axis=1) * aim
        change = np.linalg.lstsq(moves, left, rcond=None)[0]
        weights = aim + change
        if np.abs(moves @ change - left).max() > 1e-9:
            return None
        if weights.min() < LEAST or weights.max() > 1 - LEAST:
            return None
        weight = np.zeros(self.n)
        weight[one] = weight[two] = weights
        return weight

    def value(self) -> float | None:
        """D of the whole sequence; None where the middle cannot be solved."""
        weight = self.weights()
        if weight is None:
            return None
        node = np.argsort(self.place)
        after = [(node[partner[self.place]], w[self.place]) for partner, w in self.across]
        return pairs_disagreement([*self.inside, (self.mate, weight), *after], self.n)

    def near(self, random: Random) -> tuple[int, int]:
        """Two nodes, often of the same row or column."""
        i, kind = random.randrange(self.n), random.random()
        role = self.row if kind < 0.5 else self.column[self.place]
        others = np.flatnonzero(role == role[i]) if kind < 0.8 else np.arange(self.n)
        return i, int(others[random.randrange(len(others))])

    def anneal(self, random: Random, steps: int) -> tuple[float, MixParameters]:
        """The best of so many changes: two nodes change places, or change partners."""
        now = best = self.value() or 1.0
        best_middle = self.middle()
        for step in range(steps):
            temperature = self.hot * (COLD / self.hot) ** (step / steps)
            i, j = self.near(random)
            before = self.place, self.mate
            swap = np.arange(self.n)
            swap[[i, j]] = j, i
            if random.randrange(2) == 0:
                self.place = self.place[swap]
            else:
                self.mate = swap[self.mate[swap]]
            value = self.value()
            if value is not None and value < now + temperature * random.expovariate(1):
                now = value
                if now < best - 1e-12:
                    best, best_middle = now, self.middle()
            else:
                self.place, self.mate = before
        return best, best_middle

    def middle(self) -> MixParameters:
        """What has been chosen."""
        place, mate = tuple(self.place.tolist()), tuple(self.mate.tolist())
        return MixParameters(self.rows, self.columns, place, mate)


def shortest_blocks(n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first rows and columns for which `lay_out` finds a middle, in the fewest rounds."""
    known = {size: default_planner().length(size, 1) for size in range(1, n + 1)}
    return next(
        pair
        for rounds in range(known[n], 2 * n)
        for pair in candidates(n, rounds, known)
        if any(lay_out(*pair, turn) for turn in range(TURNS))
    )


def main() -> None:
    """Search, report to stdout, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", required=True)
    parser.add_argument("--steps", type=int, default=2000, help="of each annealing")
    parser.add_argument("--repeats", type=int, default=20, help="each goes on from the best")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    started = time.monotonic()
    table = {n: MixParameters(**entry) for n, entry in read_table(options.out).items()}
    for n in options.nodes:
        blocks = shortest_blocks(n)
        best = 1.0
        if n in table:
            best = bg.training_disagreement(solved_mix(table[n], "steady"), RHO)
        for repeat in range(options.repeats):
            random = Random(1000 * options.seed + repeat)
            value, middle = Search(*blocks, table.get(n)).anneal(random, options.steps)
            if value < best - 1e-9:
                bg.verify(solved_mix(middle, "steady"))
                table[n], best = middle, value
        print(f"n = {n}: D = {best:.4f}, {time.monotonic() - started:.0f} s", flush=True)
    write_table(options.out, FORMAT, {n: mix._asdict() for n, mix in table.items()})


if __name__ == "__main__":
    main()
