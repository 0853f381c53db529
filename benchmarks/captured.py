"""A training step of the engine on a GPU: captured as a CUDA graph, not captured, and copies.

Every engine makes the same steps from the same seed; the captured one must end where the other
does. Times are medians of blocks of steps, from one run.

    python benchmarks/captured.py --models lenet,vgg11
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np
import torch
from provenance import header

from basegraph.data.dataset import Dataset, Split
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.engine import StackedEngine

SHAPES = {"lenet": (1, 28, 28), "vgg11": (3, 32, 32), "resnet18": (3, 32, 32)}


def random_data(shape: tuple[int, int, int]) -> Dataset:
    draws = np.random.default_rng(0)
    labels = np.arange(20_000) % 10
    images = draws.integers(0, 256, (20_000, *shape), dtype=np.uint8)
    return Dataset("noise", Split(images, labels), Split(images[:500], labels[:500]), 10)


def measure(name: str, blocks: int, size: int) -> None:
    data = random_data(SHAPES[name])
    engines = {}
    for label, capture in (("captured", True), ("not captured", False)):
        config = RunConfig(
            nodes=25, lr=0.001, augment="crop", validation=0.0, epochs=1000, warmup=0,
            schedule="constant", alpha=10.0, capture=capture, device="cuda",
        )  # fmt: skip
        engines[label] = StackedEngine(config, data, build(name, SHAPES[name], 10, seed=0))
    times: dict[str, list[float]] = {label: [] for label in engines}
    for block in range(blocks + 1):
        for label, engine in engines.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(size):
                engine.advance()
            torch.cuda.synchronize()
            if block:
                times[label].append((time.perf_counter() - start) / size)
    a, b = (engine.x_nd for engine in engines.values())
    apart = float((a - b).abs().max() / b.abs().max())
    x = engines["captured"].x_nd
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        x.clone()
    torch.cuda.synchronize()
    copy = (time.perf_counter() - start) / 20
    for label, spent in times.items():
        ms = median(spent) * 1e3
        print(f"{name:>9} {label:>13} {ms:>8.2f} ms/step  {median(spent) / copy:>7.1f} copies of x")
    print(
        f"{'':>9} difference after {size * (blocks + 1)} steps: {apart:.1e} of the largest",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default="lenet,vgg11,resnet18")
    parser.add_argument("--blocks", type=int, default=5)
    options = parser.parse_args()
    print(header())
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, n = 25, batch 32\n")
    for name in options.models.split(","):
        measure(name, options.blocks, 40 if name == "lenet" else 10)


if __name__ == "__main__":
    main()
