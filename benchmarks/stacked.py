"""The stacked engine against a plain loop over nodes, from one run.

The plain loop is what one writes first: n modules, each with its own SGD with momentum; forward,
backward and step one node after another; then every parameter is averaged with its neighbor's.

Every form of the engine is first held to a reference in float64, on samples that nothing else has
seen: n separate modules, two steps. `error` is how far all parameters are from it, as a share of
how far they moved, both in the Euclidean norm. Times are medians of interleaved blocks of steps.

    python benchmarks/stacked.py                       # on the CPU, n = 25
    python benchmarks/stacked.py --device cuda --models lenet,vgg11,resnet18 --replicas 9 --mixing
    python benchmarks/stacked.py --device cuda --models vgg11 --profile 30   # the longest kernels

A model may have options, such as vgg11:groups=8.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np
import torch
from provenance import header
from step_profile import print_profile
from torch import Tensor, nn

import basegraph as bg
from basegraph.data.dataset import Dataset, Split
from basegraph.engines.captured.engine import CapturedEngine
from basegraph.engines.captured.tables import RoundTables
from basegraph.engines.select import single_process_engine
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.engines.stacked.mixer import one_neighbor
from basegraph.engines.stacked.nodes import StackedNodes
from basegraph.experiments import VGG_11_PARAMETERS
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem

SHAPES = {"mlp": (1, 8, 8), "lenet": (1, 28, 28), "vgg11": (3, 32, 32), "resnet18": (3, 32, 32)}
LR, MOMENTUM = 0.01, 0.9
RATES = (0.1, 0.01, 0.001)
"""Of replicas: each seed with each learning rate."""
FORMS = {
    "captured, compiled, tf32": {"precision": "tf32"},
    "captured, compiled, bf16": {"precision": "bf16"},
    "captured, compiled, float32": {"precision": "float32"},
    "captured, tf32": {"precision": "tf32", "compile": False},
    "tf32": {"precision": "tf32", "capture": False},
}
"""On a GPU; a CPU has one form."""


def shape_of(name: str) -> tuple[int, int, int]:
    """Of the images that a model is measured with, whatever its options."""
    return SHAPES[name.partition(":")[0]]


class PlainLoop:
    """n modules, n optimizers, on whatever samples."""

    def __init__(self, module: nn.Module, t: bg.Topology, device: torch.device) -> None:
        self.t = t
        self.models = [copy.deepcopy(module).to(device) for _ in range(t.n)]
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


def random_data(shape: tuple[int, int, int], seed: int) -> Dataset:
    draws = np.random.default_rng(seed)
    labels = np.arange(54_000) % 10
    images = draws.integers(0, 256, (54_000, *shape), dtype=np.uint8)
    return Dataset("noise", Split(images, labels), Split(images[:500], labels[:500]), 10)


def configuration(options: argparse.Namespace, **changes: object) -> RunConfig:
    plain = RunConfig(
        nodes=options.nodes, batch=options.batch, lr=LR, momentum=MOMENTUM, augment="crop",
        validation=0.0, epochs=1000, warmup=0, schedule="constant", alpha=10.0,
        device=options.device,
    )  # fmt: skip
    return replace(plain, **changes)


def make_engine(
    name: str, data: Dataset, configs: list[RunConfig]
) -> StackedEngine | CapturedEngine:
    modules = [build(name, shape_of(name), 10, seed=c.seed) for c in configs]
    problems = [Problem(c, data, m) for c, m in zip(configs, modules, strict=True)]
    return single_process_engine(data, problems)


def reference(name: str, nodes: StackedNodes, seed: int, steps: int) -> tuple[Tensor, Tensor]:
    """Where the parameters are after some steps, and where they were, in float64."""
    module = build(name, shape_of(name), 10, seed=seed).double()
    (problem,) = nodes.problems
    loop = PlainLoop(module, problem.topology, nodes.device)
    start = loop.parameters().clone()
    plan = copy.deepcopy(problem.planner).steps(0, steps)._asdict()
    for step in range(steps):
        planned = {
            key: torch.as_tensor(part[step]).to(nodes.device)
            for key, part in plan.items()
            if part is not None
        }
        samples, labels = nodes.data.batch(planned)
        loop.step(step, samples.double(), labels)
    return loop.parameters(), start


def measure(name: str, options: argparse.Namespace) -> None:
    cuda = options.device.startswith("cuda")
    forms = {label: FORMS[label] for label in options.forms.split(";")} if cuda else {"engine": {}}
    shape = shape_of(name)
    fresh = random_data(shape, seed=int(time.time()))
    works: dict[str, Callable[[], None]] = {}
    errors: dict[str, float] = {}
    compiling: dict[str, float] = {}
    for label, form in forms.items():
        config = configuration(options, **form)
        engine = make_engine(name, fresh, [config])
        began = time.perf_counter()
        for _ in range(2):
            engine.advance()
        synchronize(cuda)
        compiling[label] = time.perf_counter() - began
        truth, start = reference(name, engine.nodes, config.seed, 2)
        errors[label] = float((engine.nodes.x_nd - truth).norm() / (truth - start).norm())
        works[label] = engine.advance
    if cuda and options.replicas > 1:
        seeds = range(-(-options.replicas // len(RATES)))
        varied = [(seed, rate) for seed in seeds for rate in RATES][: options.replicas]
        configs = [configuration(options, seed=seed, lr=rate) for seed, rate in varied]
        engine = make_engine(name, fresh, configs)
        engine.advance()
        works[f"{options.replicas} replicas, tf32"] = engine.advance
    t = bg.topology("base:k=1", n=options.nodes)
    device = torch.device(options.device)
    plain = PlainLoop(build(name, shape, 10, seed=0), t, device)
    samples = torch.randn(options.nodes, options.batch, *shape, device=device)
    labels = torch.randint(0, 10, (options.nodes, options.batch), device=device)
    works["plain loop"] = lambda: plain.step(0, samples, labels)
    size = {"mlp": 50, "lenet": 50}.get(name, 10) if cuda else {"mlp": 10, "lenet": 2}.get(name, 1)
    times: dict[str, list[float]] = {label: [] for label in works}
    for block in range(options.blocks + 1):  # the first one warms up
        for label, work in works.items():
            count = size if label != "plain loop" else max(1, size // 10)
            spent = timed(work, count, cuda)
            if block:
                times[label].append(spent)
    base = median(times["plain loop"])
    single = median(times[next(iter(works))])
    for label in works:
        mine = median(times[label])
        error = f"{errors[label]:.1e}" if label in errors else "–"
        first = f"{compiling[label]:.0f}" if label in compiling else "–"
        print(
            f"{name:>9} {label:>27} {mine * 1e3:>9.3f} {base / mine:>8.1f} {mine / single:>8.2f} "
            f"{error:>8} {first:>8}",
            flush=True,
        )
    if options.profile:
        print_profile(works[next(iter(forms))], options.profile)


def measure_mixing(options: argparse.Namespace) -> None:
    """One round of mixing alone, as it is compiled into the step, against copying the buffer."""
    size = VGG_11_PARAMETERS
    x = torch.randn(options.nodes, size, device="cuda")
    out = torch.empty_like(x)
    print(f"\nmixing alone, ({options.nodes}, {size}) float32\n{'':>27} {'ms':>8} {'/copy':>6}")
    copying = graphed(lambda: out.copy_(x))
    print(f"{'copy':>27} {copying * 1e3:>8.3f} {1:>6.2f}")
    for spec in ("base:k=1", "base:k=2", "base:k=4", "exponential"):
        tables = RoundTables([bg.topology(spec, n=options.nodes)])
        now = {key: v[0].cuda() for key, v in tables.of([[0]]).items()}

        def mix(now: dict[str, Tensor] = now, tables: RoundTables = tables) -> None:
            out.copy_(tables.mix(now)(x))

        spent = graphed(torch.compile(mix, dynamic=False))
        print(f"{spec:>27} {spent * 1e3:>8.3f} {spent / copying:>6.2f}", flush=True)
    peers, weights = torch.arange(options.nodes).flip(0).cuda(), torch.full((1, 1), 0.5).cuda()
    spent = graphed(lambda: one_neighbor(peers, weights)(x))
    print(f"{'one peer, not compiled':>27} {spent * 1e3:>8.3f} {spent / copying:>6.2f}", flush=True)


def graphed(work: Callable[[], object], repeats: int = 20) -> float:
    """Seconds of some work replayed as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return median(timed(graph.replay, repeats, True) for _ in range(7))


def synchronize(cuda: bool) -> None:
    if cuda:
        torch.cuda.synchronize()


def timed(work: Callable[[], object], count: int, cuda: bool) -> float:
    """Seconds of one call, of so many in a row."""
    synchronize(cuda)
    start = time.perf_counter()
    for _ in range(count):
        work()
    synchronize(cuda)
    return (time.perf_counter() - start) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", default="mlp,lenet,vgg11,resnet18")
    parser.add_argument("--nodes", type=int, default=25)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--forms", default=";".join(FORMS))
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--mixing", action="store_true")
    parser.add_argument("--profile", type=int, default=0, metavar="KERNELS")
    options = parser.parse_args()
    print(header())
    where = torch.cuda.get_device_name() if options.device.startswith("cuda") else "cpu"
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {where}")
    print(f"\nn = {options.nodes}, batch {options.batch}, dsgdm over base:k=1")
    titles = f"{'ms/step':>9} {'speed-up':>8} {'/first':>8} {'error':>8} {'first s':>8}"
    print(f"{'model':>9} {'engine':>27} {titles}")
    for name in options.models.split(","):
        measure(name, options)
    if options.mixing:
        measure_mixing(options)


if __name__ == "__main__":
    main()
