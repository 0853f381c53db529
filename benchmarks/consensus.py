"""Gossip averaging against the copies it cannot avoid, and its growth with n.

A round must read the nodes' values, read the values they hear, and write the new ones; with d
numbers per node that is 1.5 copies of the values. With one number per node, where an index and a
weight cost as much as a value, it must read those too: 2.5 copies. Each time is the median over
rounds (or repeats) of one process, and the copy is measured in the same run.

    python benchmarks/consensus.py            # n = 10^2 .. 10^6, base with k = 1
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from itertools import islice
from statistics import median

import numpy as np
from provenance import header

import basegraph as bg
from basegraph.topologies.analysis._gossip import gaussian_start


def copy_seconds(x: np.ndarray) -> float:
    times = []
    for _ in range(15):
        start = time.perf_counter()
        x.copy()
        times.append(time.perf_counter() - start)
    return median(times)


def measure(spec: str, n: int, d: int | None, dtype: type) -> None:
    t = bg.topology(spec, n=n)
    x = gaussian_start(n, seed=0, d=d).astype(dtype)
    copy = copy_seconds(x)
    start = time.perf_counter()
    rounds = list(t)
    construction = time.perf_counter() - start
    built = bg.Sequence(rounds)
    start = time.perf_counter()
    errors = bg.consensus_error(built, x, t.period)
    after = time.perf_counter() - start
    del rounds, built
    start = time.perf_counter()
    (last,) = deque(islice(bg.gossip(t, x), t.period + 1), maxlen=1)
    streamed = time.perf_counter() - start
    products = []
    for r in islice(t, 12):
        matrix = r.matrix(x.dtype)
        start = time.perf_counter()
        matrix @ x
        products.append(time.perf_counter() - start)
    must = 2.5 if d is None else 1.5
    product = median(products)
    print(
        f"{n:>8} {d or 1:>3} {np.dtype(dtype).name:>8} {t.period:>6} {construction:>8.3f}"
        f" {after:>8.3f} {streamed:>8.3f} {product * 1e3:>9.3f} {product / copy:>7.1f}"
        f" {product / (must * copy):>9.1f} {errors[-1]:>9.1e}",
        flush=True,
    )
    assert len(last) == n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--topology", default="base:k=1")
    parser.add_argument("--largest", type=int, default=6, help="the largest power of ten for n")
    options = parser.parse_args()
    print(header())
    print(f"\n{options.topology}, one period")
    print("construct: all rounds; gossip: consensus_error after that; stream: both, round by round")
    print(
        f"{'n':>8} {'d':>3} {'type':>8} {'rounds':>6} {'constr s':>8} {'gossip s':>8}"
        f" {'stream s':>8} {'product ms':>9} {'/copy':>6} {'/must do':>9} {'error':>9}"
    )
    for power in range(2, options.largest + 1):
        measure(options.topology, 10**power, None, np.float64)
    measure(options.topology, 10**options.largest, None, np.float32)
    measure(options.topology, 10**options.largest, 16, np.float64)
    measure(options.topology, 10**options.largest, 16, np.float32)


if __name__ == "__main__":
    main()
