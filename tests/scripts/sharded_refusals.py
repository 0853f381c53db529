"""What is refused where nodes are groups of processes: every process says so, in one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import basegraph as bg
from support.launch import run_checks
from support.sharded import model, shard, two_dimensions


def gossip(net: nn.Module, **options: object) -> bg.Gossip:
    return bg.Gossip(torch.optim.SGD(net.parameters(), lr=0.1), **options)


def decentralized(net: nn.Module, **options: object) -> bg.DecentralizedOptimizer:
    return bg.DecentralizedOptimizer(net.parameters(), "dsgd", lr=0.1, **options)


def refused(message: str, make: Callable[..., object], net: nn.Module, **options: object) -> None:
    with pytest.raises(bg.BasegraphError, match=message) as caught:
        make(net, **options)
    assert "\n" not in str(caught.value)
    dist.barrier()


def bad_arguments() -> None:
    mesh = two_dimensions()
    nameless = init_device_mesh("cpu", (3, 2))
    net = shard(model(), mesh["shard"])
    for kind in (gossip, decentralized):
        refused(r"mesh=.*has 2 dimensions: must be .* mesh\[\"node\"\]", kind, net, mesh=mesh)
        refused("has 2 dimensions: .* names of dim", kind, net, mesh=nameless)
        refused("mesh='node': must be a .*DeviceMesh", kind, net, mesh="node")
        group = mesh.get_group("node")
        refused("cannot be combined with group=", kind, net, mesh=mesh["node"], group=group)
        refused(
            'mesh=.*is for membership="fixed"',
            kind,
            net,
            mesh=mesh["node"],
            membership="live",
            lighthouse="http://h:1",
        )
        refused("use bg.save_checkpoint", kind, net, mesh=mesh["node"], checkpoint="x")


def parameters_that_do_not_fit() -> None:
    mesh = two_dimensions()
    some = model()
    fully_shard(some[0], mesh=mesh["shard"])
    refused(
        "params='2 DTensors and 2 plain tensors': mix DTensors and plain tensors: call fully_shard",
        gossip,
        some,
        mesh=mesh["node"],
    )
    inside = shard(model(), mesh["shard"])
    refused(
        r"params='DTensors over the ranks \[\d, \d\]': must be .* pass mesh=",
        gossip,
        inside,
    )
    everywhere = shard(model(), mesh)  # HSDP: its gradients are averaged over all nodes already
    refused(
        "params='DTensors over the ranks .* must be inside one node",
        gossip,
        everywhere,
        mesh=mesh["node"],
    )


def shards_that_differ_between_nodes() -> None:
    mesh = two_dimensions()
    node = mesh.get_local_rank("node")
    wide = shard(nn.Sequential(nn.Linear(4, 6 + 2 * (node == 1))), mesh["shard"])
    refused("node 1 differs from node 0 in 'parameters'", gossip, wide, mesh=mesh["node"])
    placed = nn.Linear(4, 6)
    other = {
        p: torch.distributed.tensor.Shard(p.ndim - 1 if node == 1 else 0)
        for p in placed.parameters()
    }
    fully_shard(placed, mesh=mesh["shard"], shard_placement_fn=other.get)
    refused("node 1 differs from node 0 in 'shards'", gossip, placed, mesh=mesh["node"])


if __name__ == "__main__":
    run_checks(bad_arguments, parameters_that_do_not_fit, shards_that_differ_between_nodes)
