"""Update and mixing of a step, compiled as in the captured engine, against copying the buffer.

A pass reads or writes one number of every parameter of every node; a copy is two passes. `least` is
how many a step needs that mixes after its update: AdamW reads x, m, v, g and writes the same but g,
then mixing reads every model twice and writes it. `measured` is the time in passes of the copy.
For comparison, torch's fused AdamW on the stacked tensor with a permuted lerp after it.

    python benchmarks/updates.py --device cuda
    python benchmarks/updates.py --device cuda --nodes 25 --parameters 9231114
    python benchmarks/updates.py --parameters 100000         # on a CPU
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from provenance import header
from torch import Tensor

import basegraph as bg
from basegraph.algorithms import Method, with_outer
from basegraph.engines.captured.tables import RoundTables
from basegraph.engines.clipping import clipped
from basegraph.models.flat import aligned

LR, DECAY = 1e-3, 0.1
CASES = [
    ("dsgdm", 8, {}),
    ("dsgdm, local step", 5, {"mixes": False}),
    ("adamw", 10, {}),
    ("adamw, combine-then-adapt", 8, {"spec": "adamw:order=combine-then-adapt"}),
    ("adamw, moments mixed", 16, {"spec": "adamw:mix_moments=true"}),
    ("adamw, clipped", 11, {"clip": 1.0}),
    ("adamw, local step", 7, {"mixes": False}),
    ("adamw+dsgdm, local step", 7, {"outer": True, "mixes": False}),
    ("adamw+dsgdm, outer step", 14, {"outer": True}),
]
"""Label, the least number of passes, and what is different from adamw or dsgdm with a round."""


class Step:
    """The update of one step, from one set of buffers into another."""

    def __init__(
        self, method: Method, nodes: int, size: int, device: str, *, mixes: bool, clip: float
    ) -> None:
        self.method, self.mixes, self.clip = method, mixes, clip
        self.rounds = RoundTables([bg.topology("base:k=1", n=nodes)])
        tables = self.rounds.of([[0]]).items()
        self.now = {name: table[0].to(device) for name, table in tables}
        x = torch.randn(nodes, size, device=device)
        state = method.init(x)
        self.kind = type(state)
        self.source = [aligned(part).copy_(part) for part in (x, *state)]
        fields = ("x", *self.kind._fields)
        self.target = [
            part if name in method.slow else aligned(part)
            for name, part in zip(fields, self.source, strict=True)
        ]
        self.kept = [not mixes and name in method.slow for name in fields]
        self.gradients = aligned(x).copy_(torch.randn_like(x))
        self.lr = torch.full((nodes, 1), LR, device=device)
        self.decay = DECAY * (torch.arange(size, device=device) % 7 > 0).float()[None]

    @torch.no_grad()
    def __call__(self) -> None:
        x, *state = self.source
        mix = self.rounds.mix(self.now) if self.mixes else None
        decay = self.decay if self.method.decoupled_decay else DECAY
        gradients = clipped(self.gradients, self.clip)
        new, moved = self.method.move(x, gradients, self.kind(*state), self.lr, mix, decay)
        for into, value, kept in zip(self.target, (new, *moved), self.kept, strict=True):
            if not kept:
                into.copy_(value)


def made(label: str, spec: str = "", *, outer: bool = False) -> Method:
    method = bg.algorithm(spec or label.partition(",")[0].partition("+")[0])
    return with_outer(method, bg.algorithm("dsgdm:nesterov=true")) if outer else method


def fused_adamw(nodes: int, size: int, device: str) -> Callable[[], object]:
    """As one would write it by hand: torch's own kernel, then x + (x[peer] - x)/2, compiled."""
    x, g, m, v = (torch.randn(nodes, size, device=device) for _ in range(4))
    v.abs_()
    out, count = torch.empty_like(x), torch.ones((), device=device)
    peers = torch.arange(nodes, device=device).flip(0)
    options = {"beta1": 0.9, "beta2": 0.999, "weight_decay": DECAY, "eps": 1e-8}

    def mix(x: Tensor, peers: Tensor) -> None:
        out.copy_(torch.lerp(x, x.index_select(0, peers), 0.5))

    compiled = torch.compile(mix, dynamic=False)

    def step() -> None:
        torch._fused_adamw_(
            [x], [g], [m], [v], [], [count], amsgrad=False, maximize=False, lr=LR, **options
        )
        compiled(x, peers)

    return step


def copying(nodes: int, size: int, device: str) -> Callable[[], object]:
    x = torch.randn(nodes, size, device=device)
    out = torch.empty_like(x)
    return lambda: out.copy_(x)


def seconds(work: Callable[[], object], cuda: bool, repeats: int) -> float:
    """Of one call; on a GPU, replayed as a CUDA graph."""
    if not cuda:
        return _timed(work, repeats)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return _timed(graph.replay, repeats, torch.cuda.synchronize)


def _timed(
    work: Callable[[], object], repeats: int, wait: Callable[[], object] = lambda: None
) -> float:
    times = []
    for _ in range(7):
        wait()
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        wait()
        times.append((time.perf_counter() - start) / repeats)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--parameters", type=int, default=20_400_000)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    cuda = options.device.startswith("cuda")
    shape = options.nodes, options.parameters
    print(header())
    print(f"\nupdate and mixing over base:k=1, ({shape[0]}, {shape[1]}) float32")
    copy = seconds(copying(*shape, options.device), cuda, options.repeats)
    print(f"{'':>28} {'ms':>8} {'least':>6} {'measured':>9}")
    print(f"{'copy':>28} {copy * 1e3:>8.3f} {2:>6} {2:>9.1f}", flush=True)

    def report(label: str, least: int, work: Callable[[], object]) -> None:
        spent = seconds(work, cuda, options.repeats)
        passes = 2 * spent / copy
        print(f"{label:>28} {spent * 1e3:>8.3f} {least:>6} {passes:>9.1f}", flush=True)

    for label, least, different in CASES:
        step = Step(
            made(label, different.get("spec", ""), outer=different.get("outer", False)),
            *shape,
            options.device,
            mixes=different.get("mixes", True),
            clip=different.get("clip", 0.0),
        )
        report(label, least, torch.compile(step, fullgraph=True, dynamic=False))
        torch._dynamo.reset()
    report("torch's fused AdamW, lerp", 10, fused_adamw(*shape, options.device))


if __name__ == "__main__":
    main()
