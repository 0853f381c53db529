"""torch.distributed.checkpoint by a user's own hand, on nodes of two processes: FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
    set_state_dict,
)

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
)

FOLDER = Path(sys.argv[1])


def pair(kind: str, seed: int, *, sharded: bool):
    mesh = two_dimensions()
    net = model(seed)
    if not sharded:  # three nodes of one process each, twice
        optimizer = KINDS[kind](net.parameters(), group=mesh.get_group("node"))
        node = mesh.get_local_rank("node")
        return net, optimizer, lambda a, b: train_whole(net, optimizer, node, a, b)
    shard(net, mesh["shard"])
    optimizer = KINDS[kind](net.parameters(), mesh=mesh["node"])
    return net, optimizer, lambda a, b: train_sharded(net, optimizer, mesh, a, b)


def saved_and_loaded(kind: str, *, sharded: bool, flatten: bool, background: bool) -> None:
    """Every node has keys of its own, or they would overwrite each other."""
    path, node = FOLDER / f"{kind}-{sharded}-{flatten}", two_dimensions().get_local_rank("node")
    options = StateDictOptions(flatten_optimizer_state_dict=flatten)
    net, optimizer, train = pair(kind, node, sharded=sharded)
    train(0, 4)
    states = get_state_dict(net, optimizer, options=options)
    content = {f"node-{node}": {"model": states[0], "optimizer": states[1]}}
    before = everything(net, optimizer)
    if background:
        writing = dcp.async_save(content, checkpoint_id=path, process_group=GLOO)
        train(4, 6)
        writing.result()
    else:
        dcp.save(content, checkpoint_id=path)
        train(4, 6)

    again, resumed, train_again = pair(kind, 50 + node, sharded=sharded)
    states = get_state_dict(again, resumed, options=options)
    assert resumed.gossip_step == 0  # torch makes a step to have a state, which is none of ours
    assert resumed.traffic.messages_sent == 0
    content = {f"node-{node}": {"model": states[0], "optimizer": states[1]}}
    dcp.load(content, checkpoint_id=path)
    loaded = content[f"node-{node}"]
    set_state_dict(
        again, resumed, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"],
        options=options,
    )  # fmt: skip
    assert resumed.gossip_step == 4
    same(everything(again, resumed), before)
    train_again(4, 6)
    same(everything(again, resumed), everything(net, optimizer))


def asking_for_a_state_changes_nothing() -> None:
    """A job that saves before its first step trains as one that does not."""
    for kind in KINDS:
        net, optimizer, train = pair(kind, 3, sharded=True)
        other, asked, train_other = pair(kind, 3, sharded=True)
        get_optimizer_state_dict(other, asked)
        train(0, 3)
        train_other(0, 3)
        same(everything(other, asked), everything(net, optimizer))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    GLOO = dist.new_group(backend="gloo")
    asking_for_a_state_changes_nothing()
    for number, kind in enumerate(("adamw", "outer", "qg-dsgdm")):
        for sharded in (True, False):
            saved_and_loaded(
                kind, sharded=sharded, flatten=(number + sharded) % 2 == 0, background=sharded
            )
        if dist.get_rank() == 0:
            print("fine:", kind, flush=True)
    leave()
