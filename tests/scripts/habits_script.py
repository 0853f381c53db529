"""What users' scripts do that must not go wrong silently; run by torchrun."""

from __future__ import annotations

import copy
import itertools
import logging
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms import Join

import basegraph as bg
from basegraph.engines.distributed.stamp import OutOfStep
from support.launch import run_checks

SPREADS: dict[tuple[int, str], float] = {}
METHODS = ("dsgd", "dsgdm", "qg-dsgdm", "gradient-tracking", "momentum-tracking", "sgp", "d2")


def model(seed: int = 0, norm: bool = True) -> nn.Module:
    torch.manual_seed(seed + 10 * dist.get_rank())  # every node its own
    middle = nn.BatchNorm1d(8) if norm else nn.LayerNorm(8)
    return nn.Sequential(nn.Linear(4, 8), middle, nn.Tanh(), nn.Linear(8, 1))


def train(net: nn.Module, optimizer, steps: int, first: int = 0) -> None:
    net.train()
    for step in range(first, first + steps):
        draws = torch.Generator().manual_seed(1000 * dist.get_rank() + step)
        x = torch.randn(16, 4, generator=draws) + dist.get_rank()
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), x.sum(dim=1, keepdim=True)).backward()
        optimizer.step()


def of_all(value: torch.Tensor) -> torch.Tensor:
    rows = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, value.contiguous())
    return torch.stack(rows)


def everything(net: nn.Module) -> torch.Tensor:
    return torch.cat([t.detach().double().reshape(-1) for t in net.state_dict().values()])


def apart(value: torch.Tensor) -> float:
    rows = of_all(value)
    return float((rows - rows[0]).abs().max())


def optimizers(net: nn.Module, **options):
    yield bg.DecentralizedOptimizer(net.parameters(), "dsgdm", lr=0.05, **options)
    yield bg.Gossip(torch.optim.AdamW(net.parameters(), lr=0.01), **options)


def buffers_begin_alike_and_are_averaged() -> None:
    for kind, buffers in itertools.product((0, 1), ("local", "average")):
        net = model()
        net[0].bias.requires_grad_(False)
        net.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
        trained = [p for p in net.parameters() if p.requires_grad]
        options = {"model": net, "buffers": buffers, "topology": "ring"}
        optimizer = (
            bg.DecentralizedOptimizer(trained, lr=0.05, **options)
            if kind == 0
            else bg.Gossip(torch.optim.AdamW(trained, lr=0.01), **options)
        )
        assert apart(torch.nan_to_num(everything(net))) == 0, "frozen parameters and buffers too"
        train(net, optimizer, 8)
        own = net[1].running_mean.clone()
        spread = apart(own)
        assert spread > 0, "nodes see different data"
        x = torch.ones(2, 4)
        net.eval()
        with torch.no_grad():
            before = net(x)
            with optimizer.averaged():
                assert apart(net(x)) < 1e-5
                assert torch.allclose(net[1].running_mean, of_all(own).mean(dim=0), atol=1e-5)
            assert torch.equal(net(x), before)
            assert apart(before) > 1e-3
            optimizer.consensus()
            assert apart(net(x)) < 1e-5
        assert torch.equal(net.mask, torch.tensor([0.0, -torch.inf]))
        SPREADS[kind, buffers] = spread
    for kind in (0, 1):
        assert SPREADS[kind, "average"] < 0.7 * SPREADS[kind, "local"], SPREADS


def statistics_without_a_model_are_warned_of() -> None:
    for norm in (True, False):
        net = model(norm=norm)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            bg.DecentralizedOptimizer(net.parameters(), lr=0.05)
        about = [w for w in said if "BatchNorm1d: running statistics" in str(w.message)]
        assert len(about) == (norm and dist.get_rank() == 0), said


def resumed_in(order: str, make, net: nn.Module, kept: dict, model_state: dict):
    if order == "model first":
        net.load_state_dict(model_state)
        optimizer = make(net)
        optimizer.load_state_dict(kept)
    elif order == "optimizer first":
        optimizer = make(net)
        optimizer.load_state_dict(kept)
        net.load_state_dict(model_state)
    else:
        optimizer = make(net)
        net.load_state_dict(model_state)
        optimizer.load_state_dict(kept)
    return optimizer


def resuming_is_right_in_any_order() -> None:
    def decentralized(name):
        damping = {"damping": "auto"} if name == "d2" else {}
        return lambda net: bg.DecentralizedOptimizer(
            net.parameters(), name, lr=0.05, topology="base:k=1", model=net, **damping
        )

    def gossip(net):
        return bg.Gossip(torch.optim.AdamW(net.parameters(), lr=0.01), model=net)

    for make in [*map(decentralized, METHODS), gossip]:
        whole = model()
        train(whole, make(whole), 7)
        half = model()
        optimizer = make(half)
        train(half, optimizer, 4)
        kept = copy.deepcopy(optimizer.state_dict())
        saved = {name: value.clone() for name, value in half.state_dict().items()}
        for order in ("model first", "optimizer first", "both after"):
            again = model(seed=5)
            resumed = resumed_in(order, make, again, copy.deepcopy(kept), saved)
            train(again, resumed, 3, first=4)
            assert torch.equal(everything(again), everything(whole)), (make, order)
    fresh = model()
    optimizer = bg.Gossip(torch.optim.SGD(fresh.parameters(), lr=0.1), model=fresh, broadcast=False)
    try:
        train(fresh, optimizer, 1)
    except bg.BasegraphError as error:
        assert "node 1 differs from node 0 in 'initial model" in str(error), error
    else:
        raise AssertionError("nodes that begin apart were not refused")


def uneven_calls_are_refused() -> None:
    """Node 1 is through with its data and calls consensus() while the others train on."""
    for kind in (0, 1):
        net = model(norm=False)
        group = dist.new_group([0, 1])
        if dist.get_rank() > 1:
            continue
        optimizer = list(optimizers(net, topology="base:k=1", group=group))[kind]
        train(net, optimizer, 3)
        before = everything(net)
        try:
            optimizer.consensus() if dist.get_rank() == 1 else train(net, optimizer, 1, first=3)
        except OutOfStep as error:
            text = str(error)
            for part in ("step() after 3 steps", "consensus() after 3 steps", "optimizer.join()"):
                assert part in text, text
            if kind == 0 or dist.get_rank() == 1:
                assert torch.equal(everything(net), before), "nothing was averaged"
        else:
            raise AssertionError("not noticed")
    dist.barrier()


def uneven_data_are_joined() -> None:
    for kind, order in itertools.product((0, 1), ("adapt-then-combine", "combine-then-adapt")):
        net = model(norm=False)
        optimizer = list(optimizers(net, order=order))[kind]
        with optimizer.join():
            train(net, optimizer, 3 + 2 * dist.get_rank())
        assert optimizer.gossip_step == 3 + 2 * (dist.get_world_size() - 1)
        with Join([optimizer]):
            train(net, optimizer, 1 + dist.get_rank())
        optimizer.consensus()
        assert apart(everything(net)) < 1e-6


def consensus_takes_the_shortest_exact_sequence() -> None:
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger("basegraph").addHandler(handler)
    for spec in ("ring", "one-peer-d-equidyn", "exponential"):
        net = model(norm=False)
        optimizer = bg.DecentralizedOptimizer(net.parameters(), lr=0.05, topology=spec)
        train(net, optimizer, 3)
        average = of_all(everything(net)).mean(dim=0)
        optimizer.consensus()
        assert (everything(net) - average).abs().max() < 1e-6
        assert apart(everything(net)) == 0, "the same bits everywhere"
    if dist.get_rank() == 0 and dist.get_world_size() > 3:
        assert any("ring with n=" in r and "use short:k=1" in r for r in records), records


def rounding_on_the_wire_cancels() -> None:
    """The sum over nodes stays, and updates below half an ulp of bf16 are not lost."""
    for topology, wire in itertools.product(
        ("base:k=1", "ring"), (None, torch.bfloat16, torch.float16)
    ):
        p = nn.Parameter(torch.ones(4) + 0.001 * dist.get_rank())
        optimizer = bg.DecentralizedOptimizer(
            [p], "dsgd", lr=1e-3, topology=topology, wire=wire, broadcast=True
        )
        for _ in range(200):
            p.grad = -torch.ones(4)
            optimizer.step()
        assert (of_all(p.detach()).mean() - 1.2).abs() < 1e-4, (topology, wire, p)


def main() -> None:
    run_checks(
        buffers_begin_alike_and_are_averaged,
        statistics_without_a_model_are_warned_of,
        resuming_is_right_in_any_order,
        uneven_data_are_joined,
        consensus_takes_the_shortest_exact_sequence,
        rounding_on_the_wire_cancels,
        uneven_calls_are_refused,
    )


if __name__ == "__main__":
    main()
