"""Gossip between processes on one machine: a step's communication, every ratio from one run.

All forms move the same model, random tensors in the shapes of LeNet or VGG-11, whose gradients cost
almost nothing. `raw` is one batch of isend/irecv of the same bytes with the round's partner and
nothing else; `all-reduce` is the flat all-reduce of the gradients; `DDP` and `decent-dp` (if that
package is installed, with its one-peer exponential graph) are whole steps of those, and so is
`basegraph`: backward pass, momentum update, exchange. `mix` is basegraph's exchange alone. Times
are medians over interleaved rounds of the slowest rank's time.

    python benchmarks/distributed.py --ranks 4,8 --models lenet,vgg11
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn

import basegraph as bg
from basegraph.mixing.distributed import DistributedMixer
from basegraph.models.networks import build

SHAPES = {"lenet": (1, 28, 28), "vgg11": (3, 32, 32)}


class Shapes(nn.Module):
    """Parameters in a model's shapes, and a loss whose gradient is cheap."""

    def __init__(self, name: str) -> None:
        super().__init__()
        whole = build(name, SHAPES[name], 10, seed=0)
        self.tensors = nn.ParameterList([p.detach().clone() for p in whole.parameters()])

    def forward(self, x: Tensor) -> Tensor:
        return sum(x * p.sum() for p in self.tensors)  # type: ignore[return-value]


def whole_step(net: nn.Module, optimizer: torch.optim.Optimizer | None) -> Callable[[], None]:
    one = torch.ones(())

    def step() -> None:
        if optimizer is not None:
            optimizer.zero_grad()
        net(one).backward()
        if optimizer is not None:
            optimizer.step()

    return step


def raw(size: int, t: bg.Topology) -> Callable[[], None]:
    node = dist.get_rank()
    out, box, clock = torch.randn(size), torch.empty(size), [0]

    def exchange() -> None:
        peers = list(t.neighbors(node, clock[0]))
        clock[0] += 1
        ops = [dist.P2POp(dist.irecv, box, peer) for peer in peers]
        ops += [dist.P2POp(dist.isend, out, peer) for peer in peers]
        for work in dist.batch_isend_irecv(ops) if ops else []:
            work.wait()

    return exchange


def mix(size: int, spec: str, wire: torch.dtype | None = None) -> Callable[[], None]:
    mixer = DistributedMixer(bg.topology(spec, n=dist.get_world_size()), wire=wire)
    x, clock = torch.randn(size), [0]

    def exchange() -> None:
        mixer.mix(x, clock[0], out=x)
        clock[0] += 1

    return exchange


def forms(name: str) -> dict[str, Callable[[], None]]:
    n = dist.get_world_size()
    size = sum(p.numel() for p in Shapes(name).parameters())
    buffer = torch.randn(size)
    found = {
        "raw": raw(size, bg.topology("base:k=1", n=n)),
        "mix base:k=1": mix(size, "base:k=1"),
        "mix base:k=1, bf16": mix(size, "base:k=1", torch.bfloat16),
        "mix exponential": mix(size, "exponential"),
        "all-reduce": lambda: dist.all_reduce(buffer),
    }
    net = Shapes(name)
    optimizer = bg.DecentralizedOptimizer(net.parameters(), lr=1e-6, topology="base:k=1")
    found["basegraph"] = whole_step(net, optimizer)
    net = Shapes(name)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)
    found["basegraph Gossip"] = whole_step(net, bg.Gossip(sgd, "base:k=1"))
    ddp = nn.parallel.DistributedDataParallel(Shapes(name))
    sgd = torch.optim.SGD(ddp.parameters(), lr=1e-6, momentum=0.9)
    found["DDP"] = whole_step(ddp, sgd)
    net = Shapes(name)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)
    found["no communication"] = whole_step(net, sgd)
    try:
        from decent_dp.ddp import DecentralizedDataParallel
    except ImportError:
        if dist.get_rank() == 0:
            print("decent-dp is not installed: left out")
    else:
        theirs = DecentralizedDataParallel(
            Shapes(name),
            lambda named: torch.optim.SGD([p for _, p in named], lr=1e-6, momentum=0.9),
            topology="one-peer-exp",
        )
        found["decent-dp"] = whole_step(theirs, None)
    return found


def measure(name: str, rounds: int, count: int) -> None:
    works = forms(name)
    times: dict[str, list[float]] = {label: [] for label in works}
    for turn in range(rounds + 1):
        for label, work in works.items():
            dist.barrier()
            began = time.perf_counter()
            for _ in range(count):
                work()
            spent = torch.tensor((time.perf_counter() - began) / count)
            dist.all_reduce(spent, op=dist.ReduceOp.MAX)
            if turn:
                times[label].append(float(spent))
    if dist.get_rank() == 0:
        one = median(times["raw"])
        reduce = median(times["all-reduce"])
        for label, spent in times.items():
            mine = median(spent)
            print(
                f"{dist.get_world_size():>5} {name:>7} {label:>20} {mine * 1e3:>9.2f} "
                f"{mine / one:>7.2f} {reduce / mine:>10.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", default="4,8")
    parser.add_argument("--models", default="lenet,vgg11")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if "RANK" in os.environ:
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        for name in options.models.split(","):
            measure(name, options.rounds, 20 if name == "lenet" else 2)
        dist.destroy_process_group()
        return
    from provenance import header

    print(header())
    print(f"\n{'ranks':>5} {'model':>7} {'':>20} {'ms':>9} {'/raw':>7} {'all-reduce/':>10}")
    for ranks in options.ranks.split(","):
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        command += ["--master-addr", "127.0.0.1", "--master-port", port, *sys.argv]
        settings = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        subprocess.run(command, check=True, env=settings)


if __name__ == "__main__":
    main()
