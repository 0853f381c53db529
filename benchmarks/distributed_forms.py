"""The steps and exchanges that benchmarks/distributed.py measures, each as a call."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

import basegraph as bg
from basegraph.engines.distributed.membership.fixed import FixedMembership
from basegraph.engines.distributed.mixer import DistributedMixer
from basegraph.engines.distributed.neighbors import Schedule
from basegraph.engines.distributed.stamp import Stamp
from basegraph.models.networks import build
from basegraph.wires.catalog import wire

ORDERS = {"": "adapt-then-combine", " behind": "combine-then-adapt"}
"""Orders of step and exchange, by what is added to the name of a form."""
SHAPES = {"lenet": (1, 28, 28), "vgg11": (3, 32, 32)}


class Shapes(nn.Module):
    """Parameters in a model's shapes, and a loss whose gradient is cheap."""

    def __init__(self, name: str) -> None:
        super().__init__()
        model = build(name, SHAPES[name], 10, seed=0)
        self.tensors = nn.ParameterList([p.detach().clone() for p in model.parameters()])

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


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)


def decentralized(net: nn.Module, order: str) -> bg.DecentralizedOptimizer:
    parameters = net.parameters()
    return bg.DecentralizedOptimizer(parameters, lr=1e-6, topology="base:k=1", order=order)


def gossip(net: nn.Module, order: str) -> bg.Gossip:
    return bg.Gossip(sgd(net), "base:k=1", order=order)


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


def mix(size: int, spec: str, sent_as: str | None = None) -> Callable[[], None]:
    t = bg.topology(spec, n=dist.get_world_size())
    by = None if sent_as is None else wire(sent_as)
    mixer, schedule = DistributedMixer(FixedMembership(), wire=by), Schedule(t, dist.get_rank())
    x, clock = torch.randn(size), [0]

    def exchange() -> None:
        mixer.mix(x, Stamp("step()", clock[0]), schedule.at(clock[0]), out=x)
        clock[0] += 1

    return exchange


def forms(
    name: str, wires: list[str]
) -> tuple[dict[str, Callable[[], None]], dict[str, Callable[[], None]]]:
    """What is measured, and how those that communicate behind the next step are brought to rest."""
    n = dist.get_world_size()
    size = sum(p.numel() for p in Shapes(name).parameters())
    buffer, number = torch.randn(size), torch.randn(1)
    works = {
        "one number": raw(1, bg.topology("base:k=1", n=n)),
        "raw": raw(size, bg.topology("base:k=1", n=n)),
        "mix base:k=1": mix(size, "base:k=1"),
        **{f"mix base:k=1, {w}": mix(size, "base:k=1", w) for w in wires},
        "mix ring": mix(size, "ring"),
        "mix exponential": mix(size, "exponential"),
        "all-reduce one number": lambda: dist.all_reduce(number),
        "all-reduce": lambda: dist.all_reduce(buffer),
    }
    rest: dict[str, Callable[[], None]] = {}
    for behind, order in ORDERS.items():
        for label, build_optimizer in (("basegraph", decentralized), ("Gossip", gossip)):
            net = Shapes(name)
            optimizer = build_optimizer(net, order)
            works[label + behind] = whole_step(net, optimizer)
            if behind:
                rest[label + behind] = lambda ours=optimizer: ours._node.exchanges._pending.wait()
    ddp = nn.parallel.DistributedDataParallel(Shapes(name))
    works["DDP"] = whole_step(ddp, sgd(ddp))
    net = Shapes(name)
    works["no communication"] = whole_step(net, sgd(net))
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
        works["decent-dp"] = whole_step(theirs, None)

        def wait() -> None:
            for op in theirs._comm_ops:
                if op is not None:
                    op.wait()

        rest["decent-dp"] = wait
    return works, rest
