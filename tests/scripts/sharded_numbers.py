"""Three nodes of two shards each: the numbers of three unsharded nodes and of the simulator.

With "all": every method of the catalogue.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from same_numbers import MORE, STEPS, slope, stacked, start
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, Shard

import basegraph as bg
from basegraph.algorithms.catalog import ALGORITHMS
from support.launch import run_checks
from support.sharded import batch, model, shard, train_sharded, train_whole, two_dimensions, whole

NODES = 3
TORCH_OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}


def sharded_method(name, spec, dtype, lr, decay, local_steps, order) -> torch.Tensor:
    """Parameters of shapes that do not divide, one of them smaller than the number of shards."""
    mesh = two_dimensions()
    node, place = mesh.get_coordinate()
    tensors = [shard_of(p + node, mesh["shard"]) for p in start(dtype)]
    parameters = [nn.Parameter(p) for p in tensors]
    optimizer = bg.DecentralizedOptimizer(
        parameters, name, lr=lr, topology=spec, weight_decay=decay, local_steps=local_steps,
        order=order, allow_unstable=True, mesh=mesh["node"],
    )  # fmt: skip
    sizes = [p.numel() for p in parameters]
    flat = torch.zeros(sum(sizes), dtype=dtype)
    parts = [part.view(p.shape) for part, p in zip(flat.split(sizes), parameters, strict=True)]
    for step in range(STEPS):
        for part, p in zip(parts, parameters, strict=True):  # a gradient is local in its place, too
            chunk_of(part, place).copy_(p.detach().to_local())
        slopes = slope(node, step, flat).split(sizes)
        for p, part in zip(parameters, slopes, strict=True):
            p.grad = shard_of(part.view(p.shape), mesh["shard"])
        optimizer.step()
    return torch.cat([p.full_tensor().detach().reshape(-1) for p in parameters])


def shard_of(tensor: torch.Tensor, mesh: DeviceMesh) -> DTensor:
    local = chunk_of(tensor, mesh.get_local_rank()).clone()
    return DTensor.from_local(
        local, mesh, [Shard(0)], run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def chunk_of(tensor: torch.Tensor, place: int) -> torch.Tensor:
    """The rows of a shard, of which there are two."""
    half = -(-len(tensor) // 2)
    return tensor[half * place : half * (place + 1)]


def every_method_as_in_the_simulator() -> None:
    names = ["d2", "gradient-tracking", "sgp", "adamw", "allreduce-sgd"]
    if "all" in sys.argv:
        names = [*(name for name in ALGORITHMS if ALGORITHMS[name]().vectors == 1), *MORE]
    cases = [(name, "base:k=1", 1, "adapt-then-combine") for name in names]
    cases += [("dsgdm", "base:k=1", 3, "combine-then-adapt"), ("dsgdm-ceca", "ceca", 1, "")]
    for name, spec, local_steps, order in cases:
        case = (name, spec, torch.float64, 0.05, 0.01, local_steps, order or "adapt-then-combine")
        mine = sharded_method(*case)
        expected = stacked(*case, n=NODES)[two_dimensions().get_local_rank("node")]
        apart = float((mine - expected).abs().max() / expected.abs().max())
        assert apart < 1e-10, (case, apart)


def torch_optimizers_as_on_unsharded_nodes() -> None:
    mesh = two_dimensions()
    node = mesh.get_local_rank("node")
    more = [
        {"order": "combine-then-adapt"},
        {"local_steps": 2, "outer": "dsgdm:momentum=0.9,nesterov=true"},
    ]
    cases = [(name, {}) for name in TORCH_OPTIMIZERS] + [("adamw", options) for options in more]
    for name, options in cases:
        net, plain = shard(model(node), mesh["shard"]), model(node)
        mine = bg.Gossip(TORCH_OPTIMIZERS[name](net.parameters()), mesh=mesh["node"], **options)
        theirs = bg.Gossip(
            TORCH_OPTIMIZERS[name](plain.parameters()), group=mesh.get_group("node"), **options
        )
        train_sharded(net, mine, mesh, 0, 7)
        train_whole(plain, theirs, node, 0, 7)
        torch.testing.assert_close(whole(net), whole(plain), rtol=1e-9, atol=1e-12)
        with mine.averaged(), theirs.averaged(), torch.no_grad():
            torch.testing.assert_close(whole(net), whole(plain), rtol=1e-9, atol=1e-12)
            net(batch(0, 0))  # the root module keeps whole parameters after this
        train_sharded(net, mine, mesh, 7, 9)
        train_whole(plain, theirs, node, 7, 9)
        torch.testing.assert_close(whole(net), whole(plain), rtol=1e-9, atol=1e-12)
        mine.consensus()
        theirs.consensus()
        torch.testing.assert_close(whole(net), whole(plain), rtol=1e-9, atol=1e-12)
        with torch.no_grad():
            x = batch(0, 1)
            torch.testing.assert_close(net(x), plain(x), rtol=1e-9, atol=1e-12)


def all_processes_hold_the_same_average() -> None:
    """Buffers too, of which every process of a node has its own."""
    mesh = two_dimensions()
    for buffers in ("local", "average"):
        net = shard(model(dist.get_rank(), norm=True), mesh["shard"])
        optimizer = bg.Gossip(
            TORCH_OPTIMIZERS["sgd"](net.parameters()),
            mesh=mesh["node"], model=net, buffers=buffers,
        )  # fmt: skip
        train_sharded(net, optimizer, mesh, 0, 4)
        own = [b.clone() for b in net.buffers()]
        with optimizer.averaged():
            assert_same_everywhere(whole(net), *net.buffers())
        assert all(torch.equal(a, b) for a, b in zip(own, net.buffers(), strict=True))
        optimizer.consensus()
        assert_same_everywhere(whole(net), *net.buffers())


def assert_same_everywhere(*tensors: torch.Tensor) -> None:
    mine = torch.cat([t.double().reshape(-1) for t in tensors])
    rows = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, mine)
    assert all(torch.equal(row, rows[0]) for row in rows), rows


def mixed_precision_keeps_float32_shards() -> None:
    mesh = two_dimensions()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    net = shard(model(dist.get_rank()).float(), mesh["shard"], mp_policy=policy)
    optimizer = bg.DecentralizedOptimizer(
        net.parameters(), "adamw", lr=0.02, mesh=mesh["node"], wire=torch.bfloat16
    )
    train_sharded(net, optimizer, mesh, 0, 3)
    assert {p.dtype for p in net.parameters()} == {torch.float32}
    optimizer.consensus()
    assert_same_everywhere(whole(net))


if __name__ == "__main__":
    run_checks(
        every_method_as_in_the_simulator,
        torch_optimizers_as_on_unsharded_nodes,
        all_processes_hold_the_same_average,
        mixed_precision_keeps_float32_shards,
    )
