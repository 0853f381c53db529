"""Search for the middle rounds of block-mix pair by pair, and write them as a table.

    python scripts/search_free.py --nodes 17 --rows 2x8,1 --columns 8,6,3 --middle 2 --out TABLE
    python scripts/search_free.py --nodes 47 --rows 4x11,3* --columns 20,16,11 --out TABLE
    python scripts/search_free.py --degree 2 --nodes 14 --rows 3x4,2 --columns 3x4,2 --out TABLE

TABLE is src/basegraph/topologies/short/free_mixes_k1.json, for other degrees accordingly. A star
marks a late block (see `FreeMix`).

Many annealings at the same time, over where nodes stand and whom they meet in the middle: one round
of degree k (k layers of pairs that happen together) or two rounds of pairs, one after the other.
The value of a choice is how far the best weights between 0 and 1/k are from an exact average, by
least squares. Where that is 0, weights are solved for in exact rationals, and `verify` decides.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from free_candidates import Stage, candidates
from free_chains import Chains
from free_weights import exact_weights

import basegraph as bg
from basegraph.topologies.analysis.bounds import shortest_possible
from basegraph.topologies.core.tables import TableFormat, read_table, write_table
from basegraph.topologies.short._short import short
from basegraph.topologies.short.free_mix import FreeMix, free_mix
from basegraph.topologies.short.planner import default_planner

HOT, COLD = 0.05, 0.002
"""Temperatures, in units of the norm of what is left."""
EXACT = 1e-9
"""A norm that counts as zero in floating point."""


def table_format(k: int) -> TableFormat:
    """What the table of this degree says about itself."""
    return TableFormat(
        about=f"Block-mix with k = {k} whose middle rounds were searched for pair by pair, shorter "
        "than any other known sequence.",
        fields={
            "rows": "the blocks of the first stage in order, as [size, how many of it]; nodes are "
            "numbered row by row",
            "columns": "the blocks of the last stage, in the same form",
            "place": "per node: where it stands when the nodes are counted column by column",
            "middle": "the rounds between rows and columns, each as edges [node, node, weight]",
            "late_rows": "sizes of the rows that leave the last round of their mirrors out",
            "late_columns": "sizes of the columns that leave the last round of their mirrors out, "
            "and run them in the opposite order",
        },
        command="python scripts/search_free.py, with the sizes and the number of middle rounds of "
        "each entry; 11, 17 and 19 nodes with k = 1 and 14 with k = 2 were found by another "
        "program of this kind",
    )


def as_mix(
    search: Chains, chain: int, weights: list[Fraction], rows: Stage, columns: Stage
) -> FreeMix:
    """What the tables hold."""
    place = np.argsort(search.orders[chain, -1])
    layers = []
    for layer in range(search.layers):
        order = search.orders[chain, layer].tolist()
        edges: dict[tuple[int, int], Fraction] = {}
        for e in range(search.pairs):
            w = weights[layer * search.pairs + e]
            if w:
                i, j = sorted(order[2 * e : 2 * e + 2])
                edges[i, j] = w
        layers.append(edges)
    if not search.two:
        together: dict[tuple[int, int], Fraction] = {}
        for edges in layers:
            for pair, w in edges.items():
                together[pair] = together.get(pair, Fraction(0)) + w
        layers = [together]
    middle = tuple(tuple((i, j, str(w)) for (i, j), w in sorted(edges.items())) for edges in layers)
    return FreeMix(rows.runs, columns.runs, tuple(place.tolist()), middle, rows.late, columns.late)


def search_middle(
    rows: Stage, columns: Stage, k: int, middle: int, steps: int, seed: int, seconds: float
) -> FreeMix | None:
    """Anneal until an exact middle is found, or time is up."""
    search = Chains(rows, columns, k, middle, seed)
    started = time.monotonic()
    refused = 0
    for step in range(10**9):
        if time.monotonic() - started > seconds:
            break
        search.step(HOT * (COLD / HOT) ** (step % steps / steps))
        for chain in np.flatnonzero(search.left < EXACT):
            weights = exact_weights(search, int(chain))
            if weights and all(0 <= w <= 1 for w in weights):
                mix = as_mix(search, int(chain), weights, rows, columns)
                t = free_mix(mix, k, "free", True, lambda size: short(size, k))
                try:
                    bg.verify(t)
                except (bg.NotFiniteTime, bg.InvalidRound, bg.InvalidArgument):
                    refused += 1
                else:
                    return mix
            refused += 1
            search.restart(np.array([chain]))
    if refused:
        print(f"  {refused} solutions in floating point were not recognized", flush=True)
    return None


def search_all(options: argparse.Namespace) -> None:
    """Try the candidates for every n that is longer than the lower bound; report and write."""
    k = options.degree
    first, last = map(int, options.auto.split(":"))
    for n in range(first, last + 1):
        length = default_planner().length(n, k)
        for rounds in range(shortest_possible(n, k), length):
            tried = candidates(n, k, rounds)
            for ratio, rows, columns, middle in tried:
                started = time.monotonic()
                mix = search_middle(
                    rows, columns, k, middle, options.steps, options.seed, options.seconds
                )
                took = f"{time.monotonic() - started:.0f} s"
                shown = f"{rows.runs}{rows.late} {columns.runs}{columns.late} {middle} {ratio:.2f}"
                answer = "yes" if mix else "no"
                print(f"n = {n}, {rounds} rounds: {answer} {shown} {took}", flush=True)
                if mix:
                    entries = read_table(options.out)
                    entries[n] = mix._asdict()
                    write_table(options.out, table_format(k), entries)
                    break
            else:
                continue
            break


def main() -> None:
    """Search, report to stdout, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--degree", type=int, default=1)
    parser.add_argument("--auto", metavar="N:N", help="try what is promising for all these n")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--rows", type=Stage.parse)
    parser.add_argument("--columns", type=Stage.parse)
    parser.add_argument("--middle", type=int, choices=(1, 2), default=1)
    parser.add_argument("--steps", type=int, default=3000, help="of one cooling")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.auto:
        search_all(options)
        return
    started = time.monotonic()
    mix = search_middle(
        options.rows,
        options.columns,
        options.degree,
        options.middle,
        options.steps,
        options.seed,
        options.seconds,
    )
    took = f"{time.monotonic() - started:.0f} s"
    if mix is None:
        print(f"n = {options.nodes}: nothing found, {took}")
        return
    rounds = mix.rounds(lambda size: short(size, options.degree).period if size > 1 else 0)
    print(f"n = {options.nodes}: {rounds} rounds, {took}")
    entries = read_table(options.out)
    entries[options.nodes] = mix._asdict()
    write_table(options.out, table_format(options.degree), entries)


if __name__ == "__main__":
    main()
