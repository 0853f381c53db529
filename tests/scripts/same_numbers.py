"""Methods on every kind of topology, over two periods, against all nodes in one process.

Usage: same_numbers.py some|all. Some: every method on two of the topologies, four on all of them.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

import basegraph as bg
from basegraph.algorithms.catalog import ALGORITHMS, algorithm
from basegraph.algorithms.local_steps import communicates, round_index
from basegraph.algorithms.method import no_mix
from basegraph.engines.distributed import blocks
from basegraph.engines.stacked.mixer import StackedMixer, average
from support.launch import leave

STEPS = 12
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-10}
"""Some methods are unstable on some topologies, and multiply rounding: those are in float64."""
MORE = [
    "adamw:order=combine-then-adapt",
    "adamw:mix_moments=true",
    "adamw:mix_moments=true,order=combine-then-adapt",
]
SPECS = [
    "base:k=1",
    "base:k=2",
    "exponential",
    "one-peer-exponential",
    "one-peer-d-equidyn",
    "ring",
]
WITH_EVERY_METHOD = ("base:k=1", "one-peer-exponential")
SOME = ("dsgdm", "gradient-tracking", "sgp", "adamw")
TWO_VECTORS = [name for name in ALGORITHMS if ALGORITHMS[name]().vectors == 2]


def slope(node: int, step: int, x: torch.Tensor) -> torch.Tensor:
    """The gradient of a node at a step: its own quadratic, and its own noise."""
    draws = torch.Generator().manual_seed(1000 * node + step)
    target = torch.randn(x.shape, generator=draws).to(x.dtype) + node
    return 0.3 * torch.tanh(x - target)


def start(dtype: torch.dtype) -> list[torch.Tensor]:
    draws = torch.Generator().manual_seed(7)
    shapes = ((3, 5), (4,), (1, 6), (2, 2, 2), (9, 40))
    return [torch.randn(shape, generator=draws).to(dtype) for shape in shapes]


def stacked(name, spec, dtype, lr, decay, local_steps, order, n=None):
    n = n or dist.get_world_size()
    t = bg.topology(spec, n=n)
    method = algorithm(name)
    mixer = StackedMixer(t, torch.device("cpu"), dtype)
    x = torch.cat([p.reshape(-1) for p in start(dtype)]).repeat(n, 1)
    state = method.init(x.clone())
    state = type(state)(*(part.clone() for part in state))
    for step in range(STEPS):
        at = method.gradient_point(x, state)
        grad = torch.stack([slope(i, step, at[i]) for i in range(n)])
        mix = no_mix(method)
        if communicates(step, local_steps):
            mix = average if method.centralized else mixer.round(round_index(step, local_steps))
        if order == "combine-then-adapt":
            pulled = lr * decay * x if method.decoupled_decay else 0 * x
            grad = grad if method.decoupled_decay else grad + decay * x
            x, state = method.step(mix(x) - pulled, grad, state, lr, no_mix(method))
        else:
            x, state = method.move(x, grad, state, lr, mix, decay)
    return method.gradient_point(x, state)


def run_distributed(name, spec, dtype, lr, decay, local_steps, order):
    node = dist.get_rank()
    tensors = [torch.nn.Parameter(p + node) for p in start(dtype)]  # node 0's are the ones
    optimizer = bg.DecentralizedOptimizer(
        tensors, name, lr=lr, topology=spec, weight_decay=decay, local_steps=local_steps,
        order=order, allow_unstable=True,
    )  # fmt: skip
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    for step in range(STEPS):
        optimizer.zero_grad()
        flat = torch.cat([p.detach().reshape(-1) for p in tensors])
        parts = slope(node, step, flat).split([p.numel() for p in tensors])
        for p, part in zip(tensors, parts, strict=True):
            p.grad = part.view(p.shape)
        optimizer.step()
        schedule.step()
    return torch.cat([p.detach().reshape(-1) for p in tensors])


def compare(*case: object) -> None:
    mine = run_distributed(*case)
    rows = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, mine)
    if dist.get_rank() > 0:
        return
    expected = stacked(*case)
    apart = float((torch.stack(rows) - expected).abs().max() / expected.abs().max())
    print(f"{apart:.1e} {case}", flush=True)
    assert apart < TOLERANCE[expected.dtype], (case, apart)


def main() -> None:
    dist.init_process_group("gloo")
    blocks.BLOCK, blocks.SMALL_TENSOR = 100, 8  # several blocks, small tensors together
    for spec in SPECS:
        every = sys.argv[1] == "all" or spec in WITH_EVERY_METHOD
        names = [name for name in ALGORITHMS if name not in TWO_VECTORS] if every else SOME
        for name in (*names, *(MORE if spec == "base:k=1" else ())):
            compare(name, spec, torch.float64, 0.05, 0.01, 1, "adapt-then-combine")
        compare("dsgdm", spec, torch.float32, 0.05, 0.01, 1, "adapt-then-combine")
    for name in TWO_VECTORS:
        for local_steps in (1, 3):
            compare(name, "ceca", torch.float64, 0.05, 0.01, local_steps, "adapt-then-combine")
        compare(name, "ceca", torch.float32, 0.05, 0.01, 1, "adapt-then-combine")
    for name in ("dsgd", "dsgdm", "adamw"):
        for local_steps in (1, 3):
            compare(name, "base:k=1", torch.float32, 0.05, 0.01, local_steps, "combine-then-adapt")
    compare("dsgdm", "ring", torch.float32, 0.05, 0.0, 3, "adapt-then-combine")
    leave()


if __name__ == "__main__":
    main()
