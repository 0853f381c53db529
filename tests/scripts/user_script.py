"""What a user's script does with the optimizers, in several ways; run by torchrun."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import nn

import basegraph as bg
from support.launch import leave


def model() -> nn.Module:
    torch.manual_seed(dist.get_rank() if dist.is_initialized() else 0)  # not alike: node 0's counts
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(100 * dist.get_rank() + step)
    x = torch.randn(32, 6, generator=draws) + 0.3 * dist.get_rank()
    return x, 0.4 * x.sum(dim=1, keepdim=True)


def everyone(net: nn.Module) -> torch.Tensor:
    mine = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    rows = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, mine)
    return torch.stack(rows)


def train(net, optimizer, steps, first=0, scheduler=None, scaler=None, clip=False):
    losses = []
    for step in range(first, first + steps):
        x, y = batch(step)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        if scaler is None:
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            if clip:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    return losses


def make(kind, net, **options):
    if kind == "gossip":
        return bg.Gossip(torch.optim.AdamW(net.parameters(), lr=0.01), **options)
    return bg.DecentralizedOptimizer(net.parameters(), lr=0.05, **options)


def learning(kind: str) -> None:
    for order in ("adapt-then-combine", "combine-then-adapt"):
        net = model()
        optimizer = make(kind, net, topology="base:k=1", order=order)
        assert isinstance(optimizer, torch.optim.Optimizer)
        rows = everyone(net)
        assert torch.equal(rows, rows[:1].expand_as(rows)), "parameters begin as node 0's"
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)
        losses = train(net, optimizer, 150, scheduler=scheduler, clip=True)
        assert sum(losses[-10:]) < 0.5 * sum(losses[:10]), (kind, order, losses[:3], losses[-3:])
        assert optimizer.traffic.bytes_sent > 0
        before = everyone(net)
        spread = (before - before.mean(dim=0)).abs().max()
        assert spread > 1e-6
        with optimizer.averaged():
            inside = everyone(net)
            assert (inside - before.double().mean(dim=0)).abs().max() < 1e-6
        assert torch.equal(everyone(net), before)
        optimizer.consensus()
        assert (everyone(net) - before.double().mean(dim=0)).abs().max() < 1e-6


def resuming(kind: str) -> None:
    """Seven steps at once, and four, a new optimizer with the state, and three."""
    whole = model()
    train(whole, make(kind, whole, topology="base:k=1"), 7)
    first = model()
    optimizer = make(kind, first, topology="base:k=1")
    train(first, optimizer, 4)
    kept, parameters = optimizer.state_dict(), [p.detach().clone() for p in first.parameters()]
    again = model()
    resumed = make(kind, again, topology="base:k=1")
    resumed.load_state_dict(kept)
    with torch.no_grad():
        for p, value in zip(again.parameters(), parameters, strict=True):
            p.copy_(value)
    train(again, resumed, 3, first=4)
    assert torch.equal(everyone(again), everyone(whole))


def scaling(kind: str) -> None:
    """A GradScaler whose gradients overflow on one node only: that node still takes part."""
    net = model()
    optimizer = make(kind, net, topology="ring")
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    train(net, optimizer, 3, scaler=scaler)
    x, y = batch(0)
    loss = nn.functional.mse_loss(net(x), y)
    if dist.get_rank() == 1:
        loss = loss * float("inf")
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses = train(net, optimizer, 3, scaler=scaler, clip=True)
    assert all(math.isfinite(loss) for loss in losses)
    assert torch.isfinite(everyone(net)).all()


def subgroup() -> None:
    """Ranks 1, 2 and 3 are the nodes; rank 0 does something else."""
    group = dist.new_group([1, 2, 3])
    if dist.get_rank() == 0:
        return
    net = model()
    optimizer = bg.DecentralizedOptimizer(net.parameters(), lr=0.05, group=group)
    train(net, optimizer, 5)
    optimizer.consensus()
    mine = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    rows = [torch.empty_like(mine) for _ in range(3)]
    dist.all_gather(rows, mine, group=group)
    assert (torch.stack(rows) - mine).abs().max() < 1e-6


def ddp_inside() -> None:
    """Two nodes of two processes: DDP within a node, gossip between the nodes."""
    rank = dist.get_rank()
    within = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    between = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    net = nn.parallel.DistributedDataParallel(model(), process_group=within[rank // 2])
    optimizer = bg.DecentralizedOptimizer(net.parameters(), lr=0.05, group=between[rank % 2])
    train(net, optimizer, 6)
    rows = everyone(net)
    assert torch.allclose(rows[0], rows[1], atol=1e-6), "the processes of a node agree"
    assert torch.allclose(rows[2], rows[3], atol=1e-6)
    optimizer.consensus()
    rows = everyone(net)
    assert (rows - rows[0]).abs().max() < 1e-6


def wire() -> None:
    """bf16 on the wire: half the bytes, nearly the same."""
    sent = {}
    ends = {}
    for dtype in (None, torch.bfloat16):
        net = model()
        optimizer = bg.DecentralizedOptimizer(net.parameters(), lr=0.05, wire=dtype)
        train(net, optimizer, 20)
        sent[dtype] = optimizer.traffic.bytes_sent
        ends[dtype] = everyone(net)
    assert sent[torch.bfloat16] * 2 == sent[None]
    apart = (ends[None] - ends[torch.bfloat16]).norm() / ends[None].norm()
    assert 0 < apart < 0.02, apart


def main() -> None:
    dist.init_process_group("gloo")
    for kind in ("decentralized", "gossip"):
        learning(kind)
        resuming(kind)
        scaling(kind)
    wire()
    if dist.get_world_size() == 4:
        subgroup()
        ddp_inside()
    if dist.get_rank() == 0:
        print("all fine", flush=True)
    leave()


if __name__ == "__main__":
    main()
