"""Language models of all nodes in one captured step against a loop over nodes, from one run.

The loop is what one writes first, with care: one model compiled by torch.compile, in bf16 autocast;
each node's forward, backward and fused AdamW one after another, parameters being views of flat
vectors; then the flat vectors are mixed by one gather and one lerp.

A case is NODESxTOKENS, the tokens of all nodes in a step, in windows of the context. Times are
medians of interleaved blocks of steps. Operations are counted: 6 per weight and token, and
attention without the masked half; `rate` is operations over time, `share` that of the rate of a
large bf16 product measured in the same run. `--check` holds the gradients to float64 first.
`--parts` times the products, the softmax and attention by themselves, `--profile` lists the kernels
of one captured step.

    python benchmarks/language.py                      # on the CPU: a tiny model
    python benchmarks/language.py --device cuda --check
    python benchmarks/language.py --device cuda --cases 8x131072 --parts --profile
"""

from __future__ import annotations

import argparse
import copy
import gc
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from language_parts import copy_rate, measure_parts, product_rate
from provenance import header
from step_profile import print_profile
from torch import Tensor, nn
from torch.func import functional_call

import basegraph as bg
from basegraph.data.dataset import Dataset, Split
from basegraph.engines.captured.engine import CapturedEngine
from basegraph.engines.captured.graph import Compiled
from basegraph.engines.select import single_process_engine
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.engines.stacked.peers import peers_of
from basegraph.models.flat import FlatModel
from basegraph.models.gpt import GPT, next_token_loss
from basegraph.models.gradients import Gradients, gradients_of, products_in
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.memory import bytes_of_run
from basegraph.training.problem import Problem

LR = 1e-4
STEPS = 16
"""Steps of an epoch: as many batches are drawn."""
CASES = {"cuda": "8x131072,8x32768,25x128000", "cpu": "3x384,8x1024"}
MODELS = {"cuda": "gpt-20m", "cpu": "gpt-tiny:vocabulary=512"}


class NodeLoop:
    """n models, one compiled function, n optimizers."""

    def __init__(self, module: GPT, t: bg.Topology, device: torch.device, fast: bool) -> None:
        self.rounds = [tuple(map(torch.as_tensor, peers_of(r))) for r in t]
        self.rounds = [(p[:, 0].to(device), w[:, :1].float().to(device)) for p, w in self.rounds]
        flat = FlatModel(module)
        self.x_nd = flat.initial().to(device).repeat(t.n, 1)
        self.parameters = [
            {name: nn.Parameter(view) for name, view in flat.views(x_d).items()}
            for x_d in self.x_nd
        ]
        self.optimizers = [
            torch.optim.AdamW(mine.values(), lr=LR, fused=fast) for mine in self.parameters
        ]
        module = copy.deepcopy(module).to(device)

        def loss(parameters: dict[str, Tensor], tokens: Tensor, targets: Tensor) -> Tensor:
            with torch.autocast(device.type, torch.bfloat16, enabled=fast):
                logits = functional_call(module, parameters, (tokens,))
            return next_token_loss(logits.float(), targets)

        self.loss = torch.compile(loss, dynamic=False) if fast else loss

    def step(self, step: int, tokens: Tensor, targets: Tensor) -> None:
        for i, optimizer in enumerate(self.optimizers):
            self.loss(self.parameters[i], tokens[i], targets[i]).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            peers, weights = self.rounds[step % len(self.rounds)]
            self.x_nd.copy_(torch.lerp(self.x_nd, self.x_nd[peers], weights))


def random_text(windows: int, context: int, vocabulary: int, seed: int) -> Dataset:
    """Tokens as rare as words are: the k-th has probability in proportion to 1 / (k + 10)."""
    draws = np.random.default_rng(seed)
    chance = 1 / (np.arange(vocabulary) + 10)
    levels = np.cumsum(chance / chance.sum())
    drawn = np.searchsorted(levels, draws.random((windows, context + 1)))
    rows = np.minimum(drawn, vocabulary - 1)
    split = Split(rows[:, :-1], rows[:, 1:])
    some = Split(rows[:8, :-1], rows[:8, 1:])
    return Dataset("noise", split, some, None, vocabulary=vocabulary)


def operations(module: GPT, tokens: int, context: int) -> float:
    """Floating-point operations of one step: products and their two gradients."""
    weights = sum(p.numel() for p in module.parameters() if p.dim() == 2)  # embedding: the output
    attention = len(module.blocks) * 2 * module.width * (context + 1)
    return tokens * 3.0 * (2 * weights + attention)


def make_engine(
    spec: str, data: Dataset, nodes: int, batch: int, options: argparse.Namespace
) -> StackedEngine | CapturedEngine:
    config = RunConfig(
        nodes=nodes, batch=batch, lr=LR, model=spec, algorithm=options.algorithm,
        validation=0.0, epochs=1000, warmup=0, schedule="constant", alpha=100.0,
        precision=options.precision, device=options.device,
    )  # fmt: skip
    module = build(spec, data.shape, None, config.seed, data.vocabulary)
    return single_process_engine(data, [Problem(config, data, module)])


def measure(case: str, rate: float, options: argparse.Namespace) -> None:
    cuda = options.device.startswith("cuda")
    device = torch.device(options.device)
    nodes, tokens = map(int, case.split("x"))
    shape = build(options.model, (2,), None, 0, 2)
    assert isinstance(shape, GPT)
    context, batch = shape.context, tokens // nodes // shape.context
    tokens = nodes * batch * context
    data = random_text(STEPS * nodes * batch, context, shape.vocabulary, seed=int(time.time()))
    if cuda:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    engine = make_engine(options.model, data, nodes, batch, options)
    for _ in range(2):
        engine.advance()
    synchronize(cuda)
    first = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() if cuda else 0
    (problem,) = engine.nodes.problems
    expected = bytes_of_run(engine.nodes.config, engine.nodes.model, data, device, problem.method)
    works: dict[str, Callable[[], object]] = {"captured" if cuda else "stacked": engine.advance}
    if not options.alone:
        module = build(options.model, data.shape, None, 0, data.vocabulary)
        assert isinstance(module, GPT)
        loop = NodeLoop(module, bg.topology("base:k=1", n=nodes), device, cuda)
        some = engine.nodes.data.batch({"sample": torch.arange(nodes * batch).view(nodes, batch)})
        works["node loop"] = lambda: loop.step(0, *some)
    times: dict[str, list[float]] = {label: [] for label in works}
    for block in range(options.blocks + 1):  # the first one warms up
        for label, work in works.items():
            spent = timed(work, options.steps if label != "node loop" else 2, cuda)
            if block:
                times[label].append(spent)
    slow = median(times[list(works)[-1]])
    for label in works:
        mine = median(times[label])
        done = operations(shape, tokens, context) / mine
        print(
            f"{nodes:>5} {tokens:>8} {label:>10} {mine * 1e3:>9.2f} {tokens / mine / 1e6:>10.3f} "
            f"{slow / mine:>8.2f} {done / 1e12:>8.1f} {done / rate:>7.1%}",
            flush=True,
        )
    losses = torch.cat(engine.losses())
    print(
        f"{'':>14} loss {float(losses[0].mean()):.3f} to {float(losses[-1].mean()):.3f} in "
        f"{len(losses)} steps; first two steps {first:.0f} s; memory "
        f"{peak / 2**30:.1f} GiB, estimated {expected / 2**30:.1f} GiB",
        flush=True,
    )
    if options.profile and cuda:
        print_profile(engine.advance, options.top)


def check(options: argparse.Namespace) -> None:
    """Gradients of three nodes, plain and compiled, against one module each in float64."""
    device = torch.device(options.device)
    torch.manual_seed(int(time.time()))
    vocabulary = 32_000 if device.type == "cuda" else 300
    module = GPT(vocabulary, layers=2, context=256).to(device)
    model, precise = FlatModel(module), FlatModel(copy.deepcopy(module).double())
    x_nd = model.initial() + 0.02 * torch.randn(3, model.size, device=device)
    tokens, targets = torch.randint(0, vocabulary, (2, 3, 2, 256), device=device)
    _, expected = Gradients(precise, next_token_loss, how="loop")(x_nd.double(), tokens, targets)
    for precision in ("float32", "bf16"):
        form = Gradients(model, next_token_loss, precision=precision)
        with products_in(precision):
            for name, losses in (("", form.losses), (" compiled", Compiled(form.losses))):
                _, slopes = gradients_of(lambda x, f=losses: f(x, tokens, targets), x_nd)
                print_error(f"{precision}{name}", slopes, expected)
            if form.by_hand_on(device):
                _, slopes = form(x_nd, tokens, targets)
                print_error(f"{precision} by hand", slopes, expected)


def print_error(name: str, slopes: Tensor, expected: Tensor) -> None:
    error = float((slopes - expected).norm() / expected.norm())
    print(f"error of the gradients, {name}: {error:.1e}", flush=True)


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
    parser.add_argument("--model", default="", help="gpt-20m on a GPU, gpt-tiny on a CPU")
    parser.add_argument("--cases", default="", help="NODESxTOKENS,...")
    parser.add_argument("--algorithm", default="adamw" if "adamw" in bg.ALGORITHMS else "dsgdm")
    parser.add_argument("--precision", default="", help="bf16 on a GPU, float32 on a CPU")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a block; 10 on a GPU")
    parser.add_argument("--alone", action="store_true", help="without the loop over nodes")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--top", type=int, default=25, help="kernels that a profile lists")
    options = parser.parse_args()
    kind = options.device.partition(":")[0]
    options.model = options.model or MODELS[kind]
    options.cases = options.cases or CASES[kind]
    options.precision = options.precision or ("bf16" if kind == "cuda" else "float32")
    options.steps = options.steps or (10 if kind == "cuda" else 2)
    print(header())
    where = torch.cuda.get_device_name() if kind == "cuda" else "cpu"
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {where}")
    rate = product_rate(options.device)
    print(f"a large product: {rate / 1e12:.3g} TFLOP/s", end="")
    print(f"; a copy: {copy_rate(options.device) / 1e12:.3g} TB/s", flush=True)
    if options.check:
        check(options)
    if options.parts and kind == "cuda":
        measure_parts()
    print(f"\n{options.model}, {options.precision}, {options.algorithm} over base:k=1")
    titles = f"{'ms/step':>9} {'M tokens/s':>10} {'speed-up':>8} {'TFLOP/s':>8} {'share':>7}"
    print(f"{'n':>5} {'tokens':>8} {'':>10} {titles}")
    for case in options.cases.split(","):
        measure(case, rate, options)


if __name__ == "__main__":
    main()
