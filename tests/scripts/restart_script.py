"""Nodes that find what survivors of another number of nodes have saved."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

import basegraph as bg
from basegraph.engines.distributed.recovery import node_files
from support.launch import leave

SAVED = {0: 40, 1: 41, 3: 43, 4: 43}
"""Survivors of five nodes, and after how many steps they stopped."""


def optimizers(folder: Path):
    for kind in ("decentralized", "gossip"):
        net = torch.nn.Linear(6, 2)
        x = torch.randn(len(SAVED), 14, generator=torch.Generator().manual_seed(1))
        place = folder / kind
        if dist.get_rank() == 0:
            for (node, step), x_d in zip(SAVED.items(), x, strict=True):
                node_files.save(place, node, {"x": x_d}, {"n": 5, "step": step})
        dist.barrier()
        if kind == "gossip":
            inner = torch.optim.AdamW(net.parameters(), lr=1e-3)
            yield net, bg.Gossip(inner, checkpoint=place), x, place
        else:
            made = bg.DecentralizedOptimizer(net.parameters(), lr=0.1, checkpoint=place)
            yield net, made, x, place


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    for net, optimizer, x, place in optimizers(Path(sys.argv[1])):
        own = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
        average = x.double().mean(dim=0).float()
        assert torch.equal(own, average), (own, average)
        assert optimizer.gossip_step == 43
        assert optimizer.topology.n == dist.get_world_size()
        dist.barrier()
        assert len(list(place.glob("*.safetensors"))) == len(SAVED)  # until there are others
        net(torch.ones(3, 6)).sum().backward()
        optimizer.step()
        assert optimizer.gossip_step == 44
    print("restarted", flush=True)
    leave()


if __name__ == "__main__":
    main()
