"""`load_checkpoint`: the same nodes go on where they were, others from the average of all."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from basegraph.engines.checkpoint import CheckpointError
from basegraph.engines.distributed.local_shards import local
from basegraph.engines.distributed.membership.handshake import together
from basegraph.errors import InvalidArgument
from basegraph.optim.checkpoints import folder as folders
from basegraph.optim.checkpoints._save import require_fixed, wait_for_background
from basegraph.optim.checkpoints.contents import NodeContents
from basegraph.optim.checkpoints.storage import Stored, group_for_checkpoints
from basegraph.optim.node_optimizer import NodeOptimizer

LOG = logging.getLogger("basegraph")
PHASE = "load_checkpoint()"


class Restored(NamedTuple):
    """The checkpoint from which a job goes on."""

    path: Path
    step: int
    """Steps made so far."""
    nodes: int
    """How many nodes had saved it."""
    extra: dict[str, Any]
    """What was given to `save_checkpoint`."""


def load_checkpoint(
    folder: str | Path, model: nn.Module, optimizer: NodeOptimizer
) -> Restored | None:
    """Continue from the newest complete checkpoint of a folder, if there is one.

    All processes of all nodes must call it. The nodes may have another number of processes than
    those that saved it. With as many nodes, each continues where it was, bit for bit. With another
    number, all begin with the exact average of the saved models; the optimizer's state is averaged
    too, unless the method's state is tied to the nodes (as d2's or gradient tracking's), which then
    begins anew. Integers are node 0's.

    Args:
        folder: Where the checkpoints are, or one of them.
        model: The module that is trained: plain, in DDP, or sharded by FSDP2.
        optimizer: `bg.Gossip` or `bg.DecentralizedOptimizer` of its parameters.

    Returns:
        What was restored; None if there is no checkpoint.

    Raises:
        CheckpointError: It cannot be read, or is of another model or optimizer.
        InvalidArgument: The processes do not see the same folder.

    Example:
        >>> import torch, warnings
        >>> import basegraph as bg
        >>> warnings.simplefilter("ignore")  # a single node: no torchrun
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = bg.Gossip(torch.optim.SGD(model.parameters(), lr=0.1))
        >>> print(bg.load_checkpoint("no-such-folder", model, optimizer))
        None
        >>> torch.distributed.destroy_process_group()  # at the end of a script

    """
    membership = require_fixed(optimizer, PHASE)
    wait_for_background()
    optimizer.require_own_model(PHASE)
    path = _newest(Path(folder), group_for_checkpoints(membership.timeout))
    if path is None:
        return None
    facts = together(lambda: folders.read_facts(path), membership, PHASE)
    same_nodes = facts.nodes == membership.n

    def read() -> None:
        contents, stored = NodeContents(model, optimizer), Stored(path)
        if facts.kind != contents.kind:
            raise CheckpointError(f"{path}: is of {facts.kind}, not of {contents.kind}")
        node = membership.node if same_nodes else 0
        options = facts.options[facts.options_of[node]]
        contents.require_same_groups(path, options)
        names = stored.names(f"nodes.{node}.")
        known = {name: t for name, t in contents.optimizer.items() if name in names}
        tensors = {**contents.model, **known}
        if same_nodes:
            stored.read({f"nodes.{node}.{name}": tensor for name, tensor in tensors.items()})
        else:
            read_average(stored, facts.nodes, tensors)
        optimizer.keep_model()
        contents.load(options, names)

    together(read, membership, PHASE)
    if not same_nodes:
        optimizer.begin_with_other_nodes()
        if membership.node == 0 and optimizer.is_first_of_node:
            LOG.warning(
                "%s: %d nodes begin with the average of %d", path, membership.n, facts.nodes
            )
    return Restored(path, facts.step, facts.nodes, facts.extra)


@torch.no_grad()
def read_average(stored: Stored, nodes: int, tensors: dict[str, Tensor]) -> None:
    """Fill tensors with the average over the nodes that were saved; integers with node 0's.

    Args:
        stored: The tensors of a checkpoint.
        nodes: How many nodes it has.
        tensors: By the names that they have at every node.

    """
    parts = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    rest = {name: tensor for name, tensor in tensors.items() if name not in parts}
    stored.read({f"nodes.0.{name}": tensor for name, tensor in rest.items()})
    totals = {name: torch.zeros_like(local(t), dtype=torch.float64) for name, t in parts.items()}
    for node in range(nodes):
        stored.read({f"nodes.{node}.{name}": tensor for name, tensor in parts.items()})
        for name, tensor in parts.items():
            totals[name] += local(tensor)
    for name, tensor in parts.items():
        local(tensor).copy_(totals[name] / nodes)


def _newest(folder: Path, group: Any) -> Path | None:
    """The newest complete checkpoint, which all processes must see."""
    known = folders.chosen(folder)
    mine = torch.tensor([max(known, default=0)])
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyone, mine, group=group)
    numbers = [int(number) for number in everyone]
    if len(set(numbers)) > 1:
        other = next(rank for rank, number in enumerate(numbers) if number != numbers[0])
        raise InvalidArgument(
            "folder",
            str(folder),
            f"must be the same for all processes: process 0 sees checkpoint {numbers[0]}, process "
            f"{other} sees {numbers[other]}",
        )
    return known[numbers[0]] if numbers[0] else None
