"""consensus(how=...) and averaged(how=...): every way to the same average, the same bits."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

import basegraph as bg
from support.launch import leave

HOWS = ("gossip", "two-state", "all-reduce", "auto")
SLOW_MESSAGES = bg.analysis.Network(bandwidth=1e12, latency=1.0)
THIN_LINKS = bg.analysis.Network(bandwidth=1.0, latency=0.0)


def of_all(x: torch.Tensor) -> torch.Tensor:
    rows = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, x)
    return torch.stack(rows)


def start(dtype: torch.dtype, wire: torch.dtype | None = None):
    """An optimizer whose nodes hold different models, and running statistics."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)).to(dtype)
    optimizer = bg.DecentralizedOptimizer(
        net.parameters(), lr=0.1, topology="ring", model=net, wire=wire, timeout=60.0
    )
    with torch.no_grad():
        for tensor in [optimizer.model, net[1].running_mean]:
            draws = torch.Generator().manual_seed(dist.get_rank())
            tensor.copy_(torch.randn(tensor.shape, generator=draws))
    return net, optimizer


def all_ways_give_the_average(dtype: torch.dtype, tolerance: float) -> None:
    for how in HOWS:
        net, optimizer = start(dtype, wire=torch.bfloat16)  # which is for steps only
        own = optimizer.model.clone()
        average = of_all(own).mean(dim=0)
        statistics = of_all(net[1].running_mean).mean(dim=0)
        with optimizer.averaged(how=how):
            shown = optimizer.model.clone()
        assert torch.equal(optimizer.model, own)
        optimizer.consensus(how=how)
        assert torch.equal(optimizer.model, shown), how
        for mine, expected in ((optimizer.model, average), (net[1].running_mean, statistics)):
            assert (mine - expected).abs().max() < tolerance, how
            assert (of_all(mine) == mine).all(), f"{how}: the same bits everywhere"


def evaluations_in_inference_mode_leave_training_alone() -> None:
    """Before the first step, so that all memory that is kept is made there."""
    for order, outer in (("adapt-then-combine", None), ("combine-then-adapt", None),
                         ("adapt-then-combine", "dsgdm")):  # fmt: skip
        for how in HOWS:
            net = nn.Linear(4, 3)
            optimizer = bg.Gossip(
                torch.optim.SGD(net.parameters(), lr=0.1), "ring", model=net, order=order,
                outer=outer, buffers="average", timeout=60.0,
            )  # fmt: skip
            with torch.inference_mode(), optimizer.averaged(how=how):
                net(torch.ones(2, 4))
            for _ in range(3):
                net(torch.ones(2, 4)).square().mean().backward()
                optimizer.step()
    _, optimizer = start(torch.float32)
    with optimizer.averaged():
        try:
            optimizer.consensus()
        except bg.BasegraphError as error:
            assert str(error).startswith("consensus() inside averaged()")
        else:
            raise AssertionError("the end of the block would undo it")


def damping_is_that_of_the_topology_there_is() -> None:
    """Whatever a state says that was saved on another one: τ = 1 is unstable here."""
    p = nn.Parameter(torch.zeros(4))
    automatic = bg.DecentralizedOptimizer([p], "d2", lr=0.01, damping="auto", timeout=60.0)
    (group,) = automatic.param_groups
    assert group["damping"] < 1
    state = automatic.state_dict()
    state["param_groups"][0] |= {"damping": 1.0, "lr": 0.005}
    before = group["damping"]
    automatic.load_state_dict(state)
    (group,) = automatic.param_groups
    assert (group["damping"], group["lr"]) == (before, 0.005)
    given = bg.DecentralizedOptimizer([p], "d2", lr=0.01, damping=before, timeout=60.0)
    for wrong, kind in ((state, bg.algorithms.Unstable), ({"state": {}, "param_groups": [{}]},
                                                          bg.InvalidArgument)):  # fmt: skip
        try:
            given.load_state_dict(wrong)
        except kind:
            assert given.param_groups[0]["damping"] == before, "nothing of it is taken"
        else:
            raise AssertionError(wrong)


def both_vectors_become_the_average() -> None:
    """In the middle of a period, so that no node brings back what it was before."""
    torch.manual_seed(0)
    p = nn.Parameter(torch.zeros(10))
    optimizer = bg.DecentralizedOptimizer(
        [p], "dsgd-ceca", lr=0.1, topology="ceca", timeout=60.0, broadcast=False
    )
    for step in range(6):
        p.grad = torch.full((10,), float(dist.get_rank()) if step < 2 else 0.0)
        optimizer.step()
        if step == 1:
            optimizer.consensus()
            average = p.detach().clone()
    assert torch.equal(p.detach(), average)


def messages(how: str, network: object = None) -> int:
    """What a node without buffers sends in one consensus()."""
    p = nn.Parameter(torch.full((1000,), float(dist.get_rank())))
    optimizer = bg.DecentralizedOptimizer([p], lr=0.1, timeout=60.0, broadcast=False)
    before = optimizer.traffic.messages_sent
    optimizer.consensus(how=how, network=network)
    return optimizer.traffic.messages_sent - before


def rounds_are_as_said() -> None:
    n = dist.get_world_size()
    short, ceca = bg.topology("short:k=1", n=n), bg.topology("ceca", n=n)
    paired = sum(bool(short.neighbors(dist.get_rank(), step)) for step in range(short.period))
    assert messages("gossip") == paired
    assert messages("two-state") == ceca.period
    assert messages("all-reduce") == 2 * (n - 1)
    assert messages("auto") == messages("auto", SLOW_MESSAGES) == ceca.period
    assert messages("auto", THIN_LINKS) == (2 * (n - 1) if n > 2 else paired)


def main() -> None:
    dist.init_process_group("gloo")
    all_ways_give_the_average(torch.float32, 1e-6)
    all_ways_give_the_average(torch.float64, 1e-14)
    both_vectors_become_the_average()
    evaluations_in_inference_mode_leave_training_alone()
    damping_is_that_of_the_topology_there_is()
    rounds_are_as_said()
    _, optimizer = start(torch.float32)
    for wrong in ({"how": "ring"}, {"how": None}, {"network": "10Gbit"}):
        try:
            optimizer.consensus(**wrong)
        except bg.InvalidArgument as error:
            assert next(iter(wrong)) in str(error)
        else:
            raise AssertionError(wrong)
    print("all fine", flush=True)
    leave()


if __name__ == "__main__":
    main()
