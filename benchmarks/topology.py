"""How planning, construction, one round, one node's question and the proof grow with n.

Every case runs in a process of its own, so that peak memory is its own and nothing has been planned
before. Times are CPU times (all is single-threaded), medians over `--repeat` runs; but the plan,
which is the first time that the topology is asked for, and the proof are measured once. Peak memory
counts what the process held beyond the bare import. Beside the rounds stand those of base and the
lower bound.

    python benchmarks/topology.py            # base, short, euclid; n = 10^2 .. 10^6; k = 1, 2, 4
    python benchmarks/topology.py --topologies short --largest 4 --repeat 1
    python benchmarks/topology.py --plus -1  # n = 99, 999, ...: powers of ten have many factors
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from provenance import header

import basegraph as bg


def seconds(work: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return median(times)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def build(name: str, n: int, k: int) -> bg.Sequence:
    options = {"k": k} if "k" in bg.TOPOLOGIES[name].options else {}
    return bg.topology(name, n=n, **options)


def measure(name: str, n: int, k: int, repeat: int) -> dict[str, float]:
    """One case. The whole period is held in memory at once, as `list(t)` does."""
    before = peak_mib()
    arcs = 0

    def whole_period() -> None:
        nonlocal arcs
        arcs = sum(len(r.receivers) for r in list(build(name, n, k)))

    plan = seconds(lambda: build(name, n, k), 1)
    period = seconds(whole_period, repeat)
    memory = peak_mib() - before
    t = build(name, n, k)
    one_round = max(seconds(lambda step=step: t.round(step), repeat) for step in range(t.period))
    nodes = np.linspace(0, n - 1, 200).astype(int).tolist()
    one_node = seconds(lambda: [t.neighbors(i, i % t.period) for i in nodes], repeat) / len(nodes)
    proof = seconds(lambda: bg.verify(t), 1)
    return {
        "rounds": t.period,
        "base": build("base", n, k).period,
        "bound": bg.shortest_possible(n, k),
        "plan": plan,
        "arcs": arcs,
        "period": period,
        "memory": memory,
        "round": one_round,
        "node": one_node,
        "proof": proof,
    }


def exponent(sizes: list[float], values: list[float]) -> float:
    """The slope of log(value) against log(size) over the upper half of the sizes."""
    half = len(sizes) // 2
    slope, _ = np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)
    return float(slope)


def series(name: str, k: int, sizes: list[int], repeat: int) -> None:
    """Measure and print one topology with k neighbors for every n."""
    print(f"\n{name}, k = {k}")
    print(
        f"{'n':>9} {'rounds':>6} {'base':>4} {'bound':>5} {'plan s':>8} {'arcs':>10}"
        f" {'period s':>9} {'arcs/s':>9} {'peak MiB':>8} {'worst round s':>13}"
        f" {'one node µs':>11} {'proof s':>8}"
    )
    rows = []
    for n in sizes:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = pool.apply(measure, (name, n, k, repeat))
        rows.append(row)
        print(
            f"{n:>9} {row['rounds']:>6} {row['base']:>4} {row['bound']:>5} {row['plan']:>8.4f}"
            f" {row['arcs']:>10} {row['period']:>9.4f} {row['arcs'] / row['period']:>9.2e}"
            f" {row['memory']:>8.0f} {row['round']:>13.4f} {row['node'] * 1e6:>11.1f}"
            f" {row['proof']:>8.2f}",
            flush=True,
        )
    if len(sizes) > 3:
        period = exponent([r["arcs"] for r in rows], [r["period"] for r in rows])
        node = exponent(sizes, [r["node"] for r in rows])
        print(f"growth: the period's construction ~ arcs^{period:.2f}; one node ~ n^{node:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--topologies", default="base,short,euclid", help="names, by commas")
    parser.add_argument("--largest", type=int, default=6, help="the largest power of ten for n")
    parser.add_argument("--plus", type=int, default=0, help="added to every n")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(header())
    sizes = [10**p + options.plus for p in range(2, options.largest + 1)]
    for name in options.topologies.split(","):
        for k in (1, 2, 4) if "k" in bg.TOPOLOGIES[name].options else (1,):
            series(name, k, sizes, options.repeat)


if __name__ == "__main__":
    main()
