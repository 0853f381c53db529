"""Threads of torch on a CPU: one, all, and what `basegraph train` chooses; on idle and busy cores.

Steps of the MLP on digits (25 nodes), LeNet (10 nodes) and VGG-11 (one node), batch 32. Busy: a
loop that never sleeps holds every core. The forms take turns, block by block; a time is the median
of the blocks. The ratio is the time with one thread over the time of the form: above 1, the form is
quicker than one thread. OMP_WAIT_POLICY=PASSIVE, which `basegraph` sets unless the user has set it,
lets threads sleep while they wait for each other; a Python program that calls the library has
OpenMP's own default unless it sets the variable before it imports torch.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/threads.py
    python benchmarks/threads.py --cores idle
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import numpy as np
import torch
from provenance import header

from basegraph.data.dataset import Dataset, Split
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.models.flat import FlatModel
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem
from basegraph.training.threads import SET_BY_USER, choose_threads, using_threads

CASES = {
    "mlp, digits, 25 nodes": ("mlp", (1, 8, 8), 25, 32, 20),
    "lenet, 10 nodes": ("lenet", (1, 28, 28), 10, 32, 3),
    "vgg11, 1 node": ("vgg11", (3, 32, 32), 1, 32, 1),
}
"""name -> model, image, nodes, batch, steps in a block"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=3, help="of each form, of which the median")
    parser.add_argument("--cores", default="idle,busy", help="idle, busy, or both with a comma")
    arguments = parser.parse_args()
    for name in SET_BY_USER:
        os.environ.pop(name, None)
    print(header())
    every = len(os.sched_getaffinity(0))
    torch.set_num_threads(every)
    policy = os.environ.get("OMP_WAIT_POLICY", "not set")
    print(f"torch    {torch.__version__}, {every} threads, OMP_WAIT_POLICY {policy}")
    print(f"load     {os.getloadavg()[0]:.1f} on average in the last minute, before this began")
    print(f"\n{'cores':6}{'case':24}{'threads':>12}{'ms per step':>14}{'ratio':>8}")
    for cores in arguments.cores.split(","):
        with busy(every if cores == "busy" else 0):
            for case, settings in CASES.items():
                for threads, milliseconds, ratio in measure(*settings, every, arguments.blocks):
                    print(f"{cores:6}{case:24}{threads:>12}{milliseconds:14.2f}{ratio:8.2f}")


def measure(
    model: str, shape: tuple[int, int, int], nodes: int, batch: int, steps: int, every: int,
    blocks: int,
) -> Iterator[tuple[str, float, float]]:  # fmt: skip
    engine, chosen = engine_of(model, shape, nodes, batch)
    forms = {1: "1", every: str(every)}
    forms[chosen] = f"{chosen} (chosen)"
    times: dict[int, list[float]] = {count: [] for count in forms}
    for _ in range(blocks):
        for count in forms:
            with using_threads(count):
                engine.advance()  # the threads start
                began = time.perf_counter()
                for _ in range(steps):
                    engine.advance()
                times[count].append((time.perf_counter() - began) / steps)
    for count, said in forms.items():
        mine = median(times[count])
        yield said, 1e3 * mine, median(times[1]) / mine


def engine_of(
    model: str, shape: tuple[int, int, int], nodes: int, batch: int
) -> tuple[StackedEngine, int]:
    """An engine on noise, and how many threads a run of it would have."""
    count = 2 * nodes * batch
    pixels = np.random.default_rng(0).integers(0, 256, (count, *shape)).astype(np.uint8)
    split = Split(pixels, np.arange(count) % 10)
    dataset = Dataset("noise", split, split, 10)
    config = RunConfig(nodes=nodes, batch=batch, epochs=1000, augment="none", device="cpu")
    module = build(model, shape, 10, 0)
    device = torch.device("cpu")
    chosen = choose_threads(config, FlatModel(module), dataset, device, nodes)
    return StackedEngine(dataset, [Problem(config, dataset, module)]), chosen.steps


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Processes that hold a core each."""
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range(processes)]
    for process in others:
        process.start()
    try:
        yield
    finally:
        for process in others:
            process.terminate()
            process.join()


def spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
