"""Checkpoints of nodes of several processes: sharded_checkpoints.py WHAT FOLDER SHARDS.

save: train, save in the foreground and in the background, go on; what the nodes then have is kept.
load: with other numbers of nodes and shards, compare with what was kept, and train on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard

import basegraph as bg
from basegraph.optim.checkpoints.storage import NodesWriter
from support.launch import leave
from support.sharded import (
    KINDS,
    everything,
    model,
    same,
    shard,
    train_sharded,
    train_whole,
    two_dimensions,
    whole,
)

WHAT, FOLDER, SHARDS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])


def build(kind: str, seed: int) -> tuple[nn.Module, torch.optim.Optimizer, object]:
    """The model, the optimizer and what trains them from one step to another."""
    mesh = two_dimensions(SHARDS)
    if SHARDS == 1:
        net = model(seed, norm=WHAT == "export")
        optimizer = KINDS[kind](net.parameters(), model=net, group=mesh.get_group("node"))
        node = mesh.get_local_rank("node")
        return net, optimizer, lambda a, b: train_whole(net, optimizer, node, a, b)
    net = shard(model(seed, norm=WHAT == "export"), mesh["shard"])
    optimizer = KINDS[kind](net.parameters(), model=net, mesh=mesh["node"])
    return net, optimizer, lambda a, b: train_sharded(net, optimizer, mesh, a, b)


def save() -> None:
    for kind in KINDS:
        net, optimizer, train = build(kind, seed=dist.get_rank())
        train(0, 4)
        bg.save_checkpoint(FOLDER / kind, net, optimizer, extra={"epoch": 1}).result()
        train(4, 5)
        writing = bg.save_checkpoint(FOLDER / kind, net, optimizer, background=True)
        keep(kind, "saved", everything(net, optimizer), optimizer)
        train(5, 8)  # while it is written
        assert writing.result().name == "000002-step-5"
        keep(kind, "later", everything(net, optimizer), optimizer)
        if dist.get_rank() == 0:
            print("fine:", kind, flush=True)


def keep(kind: str, name: str, tensors: dict[str, torch.Tensor], optimizer: bg.Gossip) -> None:
    node = optimizer.membership.node
    if optimizer.is_first_of_node:
        save_file(tensors, FOLDER / kind / f"{name}-{node}.safetensors")
    dist.barrier()


def load() -> None:
    for kind in KINDS:
        net, optimizer, train = build(kind, seed=100 + dist.get_rank())
        restored = bg.load_checkpoint(FOLDER / kind, net, optimizer)
        assert restored is not None
        assert (restored.step, restored.nodes, restored.extra) == (5, 3, {})
        assert optimizer.gossip_step == 5
        saved = [load_file(FOLDER / kind / f"saved-{node}.safetensors") for node in range(3)]
        now, node, n = everything(net, optimizer), optimizer.membership.node, optimizer.membership.n
        if n == 3:
            same(now, saved[node])
            train(5, 8)
            later = load_file(FOLDER / kind / f"later-{node}.safetensors")
            assert_close(everything(net, optimizer), later)
        else:
            tied = kind == "gradient-tracking"
            average = {
                name: torch.stack([each[name] for each in saved]).mean(dim=0)
                for name in (["model"] if tied else saved[0])
            }
            assert_close({name: now[name] for name in average}, average)
            train(5, 8)
            optimizer.consensus()
        if dist.get_rank() == 0:
            print("fine:", kind, flush=True)


def assert_close(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert mine.keys() == theirs.keys(), (mine.keys(), theirs.keys())
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-9, atol=1e-12)


def killed() -> None:
    """One process dies while it writes the second checkpoint in the background."""
    net, optimizer, train = build("adamw", seed=dist.get_rank())
    train(0, 2)
    bg.save_checkpoint(FOLDER, net, optimizer)
    train(2, 4)
    if dist.get_rank() == 3:
        NodesWriter.write_data = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    bg.save_checkpoint(FOLDER, net, optimizer, background=True)
    train(4, 1000)  # until the loss of the process is noticed


def after_a_kill() -> None:
    """The checkpoint before is taken, and what was being written is gone after the next one."""
    net, optimizer, train = build("adamw", seed=dist.get_rank())
    restored = bg.load_checkpoint(FOLDER, net, optimizer)
    assert restored is not None
    assert restored.path.name == "000001-step-2"
    train(2, 3)
    bg.save_checkpoint(FOLDER, net, optimizer)
    names = sorted(path.name for path in FOLDER.iterdir())
    assert names == ["000001-step-2", "000002-step-3"], names


def tied() -> None:
    """A weight with two names is saved once, and a frozen one comes back at every node."""
    net, optimizer = tied_pair()
    before = whole(net).clone()
    path = bg.save_checkpoint(FOLDER, net, optimizer).result()
    names = {name for file in path.glob("*.safetensors") for name in load_file(file)}
    assert any("model.0.weight" in name for name in names)
    assert not any("model.1.weight" in name for name in names)
    for load_model in (True, False):
        again, resumed = tied_pair()
        for group in resumed.param_groups:
            group["gossip_step"] = 1  # as of a job that has made steps
        if load_model:
            state = get_model_state_dict(net)
            set_model_state_dict(again, state)
            resumed.load_state_dict(resumed.state_dict())
        else:
            bg.load_checkpoint(FOLDER, again, resumed)
        assert torch.equal(whole(again), before)
        assert again[1].weight is again[0].weight


def tied_pair() -> tuple[nn.Module, bg.Gossip]:
    mesh = two_dimensions(SHARDS)
    torch.manual_seed(mesh.get_local_rank("node"))
    net = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 6))
    net[1].weight = net[0].weight
    net[1].bias.requires_grad_(False)
    fully_shard(net, mesh=mesh["shard"])
    trained = [p for p in net.parameters() if p.requires_grad]
    return net, bg.Gossip(torch.optim.AdamW(trained), mesh=mesh["node"], model=net)


def export() -> None:
    net, optimizer, train = build("adamw", seed=dist.get_rank())
    train(0, 3)
    bg.save_averaged(FOLDER / "model.safetensors", net, optimizer)
    own = everything(net, optimizer)
    plain = model(norm=True)
    plain.load_state_dict(load_file(FOLDER / "model.safetensors"))
    with optimizer.averaged():
        assert torch.equal(whole(net), whole(plain))
        for mine, theirs in zip(net.buffers(), plain.buffers(), strict=True):
            assert torch.equal(mine, theirs)
    same(everything(net, optimizer), own)


def bad_path() -> None:
    """A wrong ending, then a missing folder; all processes can go on afterwards."""
    net, optimizer, train = build("adamw", seed=dist.get_rank())
    train(0, 1)
    for path in (FOLDER / "model.pt", FOLDER / "missing" / "model.safetensors"):
        try:
            bg.save_averaged(path, net, optimizer)
        except bg.BasegraphError as error:
            assert "path" in str(error)
        else:
            raise AssertionError(f"{path} was accepted")
    bg.save_averaged(FOLDER / "model.safetensors", net, optimizer)
    train(1, 2)
    print("fine: everyone was told", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    globals()[WHAT]()
    leave()
