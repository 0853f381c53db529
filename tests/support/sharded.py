"""Six processes as three nodes of two shards each, and models on them."""

from __future__ import annotations

from functools import cache

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

import basegraph as bg

KINDS = {
    "adamw": lambda p, **o: bg.Gossip(torch.optim.AdamW(p, lr=0.02, betas=(0.8, 0.9)), **o),
    "outer": lambda p, **o: bg.Gossip(
        torch.optim.SGD(p, lr=0.05, momentum=0.9), local_steps=2, outer="dsgdm", **o
    ),
    "qg-dsgdm": lambda p, **o: bg.DecentralizedOptimizer(p, "qg-dsgdm", lr=0.02, **o),
    "gradient-tracking": lambda p, **o: bg.DecentralizedOptimizer(
        p, "gradient-tracking", lr=0.02, **o
    ),
}
"""Optimizers of every kind, by name."""


@cache
def two_dimensions(shards: int = 2) -> DeviceMesh:
    """A mesh ("node", "shard") of all processes."""
    nodes = dist.get_world_size() // shards
    return init_device_mesh("cpu", (nodes, shards), mesh_dim_names=("node", "shard"))


def model(seed: int = 0, *, norm: bool = False) -> nn.Module:
    """Uneven shapes: of the last layer, one shard of two holds everything."""
    draws = torch.random.get_rng_state()
    torch.manual_seed(seed)
    middle: nn.Module = nn.BatchNorm1d(7) if norm else nn.Tanh()
    made = nn.Sequential(nn.Linear(5, 7), middle, nn.Linear(7, 1)).double()
    torch.random.set_rng_state(draws)
    return made


def shard(net: nn.Module, mesh: DeviceMesh, **options: object) -> nn.Module:
    """The model sharded over a dimension of a mesh; the last layer is the root module's own."""
    for layer in list(net)[:-1]:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh, **options)
    fully_shard(net, mesh=mesh, **options)
    return net


def whole(net: nn.Module) -> torch.Tensor:
    """All parameters in one vector, sharded or not."""
    parameters = [getattr(p, "full_tensor", lambda p=p: p)() for p in net.parameters()]
    return torch.cat([p.detach().reshape(-1) for p in parameters])


def batch(node: int, step: int, size: int = 8) -> torch.Tensor:
    draws = torch.Generator().manual_seed(1000 * node + step)
    return torch.randn(size, 5, generator=draws).double() + 0.3 * node


def train_sharded(net: nn.Module, optimizer, mesh: DeviceMesh, first: int, last: int) -> None:
    """Every process has its part of the node's batch."""
    node, place = mesh.get_coordinate()
    for step in range(first, last):
        x = batch(node, step).chunk(mesh.size(1))[place]
        optimizer.zero_grad()
        (net(x) - x.sum(dim=1, keepdim=True)).square().mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        optimizer.step()


def train_whole(net: nn.Module, optimizer, node: int, first: int, last: int) -> None:
    for step in range(first, last):
        x = batch(node, step)
        optimizer.zero_grad()
        (net(x) - x.sum(dim=1, keepdim=True)).square().mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        optimizer.step()


def everything(net: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The model and the tensors of the optimizer's state, whole, by name."""
    state = {}
    for number, p in enumerate(parameters := list(net.parameters())):
        for key, value in optimizer.state[p].items():
            if isinstance(value, torch.Tensor):
                full = value.full_tensor() if hasattr(value, "full_tensor") else value
                state[f"{number}.{key}"] = full.detach().clone().reshape(-1)
    assert parameters
    return {"model": whole(net).clone(), **state}


def same(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert mine.keys() == theirs.keys(), (mine.keys(), theirs.keys())
    for name, tensor in mine.items():
        assert torch.equal(tensor, theirs[name]), name
