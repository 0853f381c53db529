"""Eight processes: two nodes of 2 × 2, with FSDP2 and tensor parallelism inside a node."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import basegraph as bg
from support.launch import leave
from support.sharded import whole


def model(node: int) -> nn.Module:
    torch.manual_seed(node)
    layers = nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3), nn.LayerNorm(3)
    return nn.Sequential(*layers).double()


def main() -> None:
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("node", "shard", "tensor"))
    node, place, _ = mesh.get_coordinate()
    net, plain = model(node), model(node)
    parallelize_module(net, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(net[0], mesh=mesh["shard"])
    fully_shard(net, mesh=mesh["shard"])
    mine = bg.DecentralizedOptimizer(net.parameters(), "dsgdm", lr=0.05, mesh=mesh["node"])
    theirs = bg.DecentralizedOptimizer(
        plain.parameters(), "dsgdm", lr=0.05, group=mesh.get_group("node")
    )
    for step in range(5):
        draws = torch.Generator().manual_seed(100 * node + step)
        x = torch.randn(8, 6, generator=draws).double()
        for optimizer, module, part in ((mine, net, x.chunk(2)[place]), (theirs, plain, x)):
            optimizer.zero_grad()
            module(part).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(whole(net), whole(plain), rtol=1e-9, atol=1e-12)
    mine.consensus()
    theirs.consensus()
    torch.testing.assert_close(whole(net), whole(plain), rtol=1e-9, atol=1e-12)
    leave()


if __name__ == "__main__":
    main()
