"""The stacked engine against a plain loop over nodes, from one run.

The plain loop is what one writes first: n modules, each with its own SGD with momentum; forward,
backward and step one node after another; then every parameter is averaged with its neighbour's.
Both do the same work on the same samples and must end with the same parameters. Times are medians
of interleaved blocks of steps.

    python benchmarks/stacked.py                       # on the CPU, n = 25
    python benchmarks/stacked.py --device cuda --models lenet,vgg11,resnet18
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from provenance import header
from torch import Tensor, nn

import basegraph as bg
from basegraph.algorithms.catalog import algorithm
from basegraph.mixing.stacked import StackedMixer
from basegraph.models.flat import FlatModel, Gradients
from basegraph.models.networks import build
from basegraph.training.update import in_blocks, update

SHAPES = {"mlp": (1, 8, 8), "lenet": (1, 28, 28), "vgg11": (3, 32, 32), "resnet18": (3, 32, 32)}
LR, MOMENTUM = 0.01, 0.9


class PlainLoop:
    """n modules, n optimizers."""

    def __init__(self, name: str, t: bg.Topology, device: torch.device) -> None:
        self.t = t
        self.models = [build(name, SHAPES[name], 10, seed=0).to(device) for _ in range(t.n)]
        self.optimizers = [
            torch.optim.SGD(m.parameters(), lr=LR, momentum=MOMENTUM) for m in self.models
        ]

    def step(self, step: int, samples: Tensor, labels: Tensor) -> None:
        for i, (model, optimizer) in enumerate(zip(self.models, self.optimizers, strict=True)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(samples[i]), labels[i]).backward()
            optimizer.step()
        with torch.no_grad():
            before = [[p.clone() for p in model.parameters()] for model in self.models]
            for i, model in enumerate(self.models):
                for j, weight in self.t.neighbors(i, step).items():
                    for p, mine, theirs in zip(
                        model.parameters(), before[i], before[j], strict=True
                    ):
                        p.add_(theirs - mine, alpha=float(weight))

    def parameters(self) -> Tensor:
        flat = [torch.cat([p.detach().reshape(-1) for p in m.parameters()]) for m in self.models]
        return torch.stack(flat)


class Stacked:
    """The engine's ingredients: flat buffers, all gradients, one mix."""

    def __init__(self, name: str, t: bg.Topology, device: torch.device, how: str) -> None:
        model = FlatModel(build(name, SHAPES[name], 10, seed=0).to(device))
        self.x_nd = model.initial().repeat(t.n, 1)
        self.method = algorithm("dsgdm", momentum=MOMENTUM)
        self.state = self.method.init(self.x_nd)
        self.gradients = Gradients(model, nn.functional.cross_entropy, how)
        self.buffer = torch.empty_like(self.x_nd) if in_blocks(self.x_nd) else None
        self.mixer = StackedMixer(t, device, torch.float32)

    def step(self, step: int, samples: Tensor, labels: Tensor) -> None:
        """One step of all nodes."""
        _, gradients = self.gradients(self.x_nd, samples, labels, self.buffer)
        self.x_nd, self.state = update(
            self.method, self.x_nd, gradients, self.state, LR, self.mixer.round(step)
        )

    def parameters(self) -> Tensor:
        return self.x_nd


def measure(
    name: str,
    hows: list[str],
    n: int,
    batch: int,
    device: torch.device,
    blocks: int,
    size: int,
) -> None:
    t = bg.topology("base:k=1", n=n)
    engines: dict[str, PlainLoop | Stacked] = {
        "plain loop": PlainLoop(name, t, device),
        **{how: Stacked(name, t, device, how) for how in hows},
    }
    times: dict[str, list[float]] = {label: [] for label in engines}
    draws = torch.Generator().manual_seed(0)
    for block in range(blocks + 1):  # the first one warms up
        samples = torch.randn(n, batch, *SHAPES[name], generator=draws).to(device)
        labels = torch.randint(0, 10, (n, batch), generator=draws).to(device)
        for label, engine in engines.items():
            work = partial(run, engine, block * size, size, samples, labels)
            spent = timed(work, device)
            if block:
                times[label].append(spent / size)
    reference = engines["plain loop"].parameters()
    base = median(times["plain loop"])
    for label, engine in engines.items():
        apart = float((engine.parameters() - reference).abs().max() / reference.abs().max())
        mine = median(times[label])
        print(
            f"{name:>9} {label:>11} {mine * 1e3:>10.2f} {base / mine:>8.2f} {apart:>10.1e}",
            flush=True,
        )


def run(
    engine: PlainLoop | Stacked, first: int, count: int, samples: Tensor, labels: Tensor
) -> None:
    for step in range(first, first + count):
        engine.step(step, samples, labels)


def timed(work: Callable[[], None], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", default="mlp,lenet,vgg11,resnet18")
    parser.add_argument("--nodes", type=int, default=25)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--engines", default="auto,stacked,loop")
    options = parser.parse_args()
    device = torch.device(options.device)
    print(header())
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {device}")
    print(f"\nn = {options.nodes}, batch {options.batch}, dsgdm over base:k=1")
    print(f"{'model':>9} {'engine':>11} {'ms/step':>10} {'speed-up':>8} {'difference':>10}")
    for name in options.models.split(","):
        size = {"mlp": 10, "lenet": 2}.get(name, 1)
        engines = options.engines.split(",")
        measure(name, engines, options.nodes, options.batch, device, options.blocks, size)


if __name__ == "__main__":
    main()
