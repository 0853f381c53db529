"""The step times that `basegraph advise` predicts, beside measured ones over shaped links.

A step computes for --step-time: it sleeps, a third in the forward pass and the rest in the backward
pass, in front of every gradient in proportion to its size, so that the cores stay free for what is
measured. The model is random tensors in the shapes of LeNet or VGG-11. Measured are whole steps
of DDP (gloo) and of `bg.DecentralizedOptimizer` over base:k=1 and ring in both orders; times are
medians over interleaved steps of the slowest rank's time.

The prediction takes the shaped bandwidth; its latency is that of one number, measured: of an
exchange, and, for DDP, of an all-reduce divided by its 2(n-1) messages.

    python benchmarks/advise.py --netns --rate 100mbit --ranks 3 --step-time 500ms,4s
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from statistics import median

import distributed
import distributed_forms
import netns
import torch
import torch.distributed as dist
from provenance import header
from torch import Tensor, nn

import basegraph as bg
from basegraph.models.networks import build
from basegraph.topologies.analysis.network import Network, load
from basegraph.topologies.analysis.step_time import BACKWARD, ORDERS, ddp_step, gossip_step
from basegraph.units import bandwidth, seconds

TOPOLOGIES = ("base:k=1", "ring")


class Nap(torch.autograd.Function):
    """The identity, which takes a time in each direction."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, computing: float) -> Tensor:
        ctx.computing = computing  # type: ignore[attr-defined]
        time.sleep((1 - BACKWARD) * computing)
        return x.clone()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, None]:
        time.sleep(BACKWARD * ctx.computing)  # type: ignore[attr-defined]
        return grads[0], None


class Sleeper(nn.Module):
    """Parameters in a model's shapes; a pass through it takes a time and nothing else."""

    def __init__(self, name: str, computing: float) -> None:
        super().__init__()
        model = build(name, distributed_forms.SHAPES[name], 10, seed=0)
        self.tensors = nn.ParameterList([p.detach().clone() for p in model.parameters()])
        total = sum(p.numel() for p in self.tensors)
        self.naps = [computing * p.numel() / total for p in self.tensors]

    def forward(self, x: Tensor) -> Tensor:
        for p, nap in zip(self.tensors, self.naps, strict=True):
            x = Nap.apply(x + 1e-9 * p.sum(), nap)
        return x


def forms(name: str, computing: float) -> dict[str, Callable[[], None]]:
    ddp = nn.parallel.DistributedDataParallel(Sleeper(name, computing))
    sgd = torch.optim.SGD(ddp.parameters(), lr=1e-6, momentum=0.9)
    made = {"DDP": _step(ddp, sgd)}
    for spec in TOPOLOGIES:
        for order in ORDERS:
            net = Sleeper(name, computing)
            optimizer = bg.DecentralizedOptimizer(
                net.parameters(), lr=1e-6, topology=spec, order=order
            )
            made[f"{spec}, {order}"] = _step(net, optimizer)
    return made


def _step(net: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    start = torch.ones((), requires_grad=True)

    def step() -> None:
        optimizer.zero_grad()
        net(start).backward()
        optimizer.step()

    return step


def timed(work: Callable[[], None], count: int) -> float:
    """Seconds of one of these, of the slowest rank, after one that is not counted.

    That one leaves behind what its successor waits for where the exchange overlaps.
    """
    dist.barrier()
    work()
    began = time.perf_counter()
    for _ in range(count):
        work()
    spent = torch.tensor((time.perf_counter() - began) / count)
    dist.all_reduce(spent, op=dist.ReduceOp.MAX)
    return float(spent)


def latencies() -> tuple[float, float]:
    """Seconds of a message without content: of an exchange, and within an all-reduce."""
    n = dist.get_world_size()
    number = torch.randn(1)
    exchange = distributed_forms.raw(1, bg.topology("base:k=1", n=n))
    reduce: Callable[[], None] = lambda: dist.all_reduce(number)  # type: ignore[assignment]  # noqa: E731
    return (
        median(timed(exchange, 5) for _ in range(5)),
        median(timed(reduce, 5) for _ in range(5)) / max(2 * (n - 1), 1),
    )


def predicted(name: str, computing: float, rate: float, waits: tuple[float, float]) -> list[float]:
    """The step times of `forms`, in its order."""
    n = dist.get_world_size()
    size = 4 * sum(p.numel() for p in Sleeper(name, 0).parameters())
    exchange, inner = (Network(bandwidth=rate, latency=wait) for wait in waits)
    ddp = ddp_step(load("all-reduce", n), size, inner, computing)
    return [ddp] + [
        gossip_step(load(spec, n), size, exchange, computing, order)
        for spec in TOPOLOGIES
        for order in ORDERS
    ]


def as_rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    waits = latencies()
    rate = bandwidth("--rate", options.rate)
    for text in options.step_time.split(","):
        computing = seconds("--step-time", text)
        works = forms(options.model, computing)
        taken: dict[str, list[float]] = {label: [] for label in works}
        for turn in range(options.rounds + 1):
            for label, work in works.items():
                spent = timed(work, 2)
                if turn:
                    taken[label].append(spent)
        model = predicted(options.model, computing, rate, waits)
        for (label, spent), expected in zip(taken.items(), model, strict=True):
            if dist.get_rank() == 0:
                print(
                    f"{dist.get_world_size():>5} {options.model:>6} {text:>9} {label:<29} "
                    f"{expected * 1e3:>9.0f} {median(spent) * 1e3:>9.0f} "
                    f"{expected / median(spent):>9.2f}",
                    flush=True,
                )
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--model", default="vgg11", choices=list(distributed_forms.SHAPES))
    parser.add_argument("--step-time", default="500ms,2s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--netns", action="store_true", required=True, help="in namespaces, always")
    parser.add_argument("--rate", default="200mbit", help="of a link, each way")
    parser.add_argument("--delay", default="0ms", help="of a link")
    options = parser.parse_args()
    if "RANK" in os.environ:
        as_rank(options)
        return
    if "BENCHMARK_ENCLOSED" not in os.environ:
        for text in options.step_time.split(","):
            seconds("--step-time", text)
        bandwidth("--rate", options.rate)
        command = netns.enclosed([sys.executable, *sys.argv])
        os.execvpe(command[0], command, {**os.environ, "BENCHMARK_ENCLOSED": "1"})
    print(header())
    print(
        f"\nlinks of {options.rate}, delay {options.delay}\n{'ranks':>5} {'model':>6} "
        f"{'step time':>9} {'':<29} {'predicted':>9} {'measured':>9} {'pred/meas':>9}",
        flush=True,
    )
    with netns.shaped(options.ranks, options.rate, options.delay) as prefixes:
        distributed.ranks_of(options.ranks, prefixes, netns.address(0), netns.INTERFACE)


if __name__ == "__main__":
    try:
        main()
    except (netns.NoNamespaces, bg.BasegraphError) as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(2)
