"""The first broadcast of a model, which can be undone where a job turns out to be resumed."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from basegraph.engines.distributed.collectives import broadcast
from basegraph.engines.distributed.local_shards import local
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.handshake import require_alike


class InitialModel:
    """Tensors that start as node 0's; until the first step the broadcast can be undone.

    A job that is resumed usually loads the model, builds the optimizer and loads the optimizer's
    state. Only the last tells that the job was resumed, and that every node has a model of its own:
    so building the optimizer keeps what it overwrites, until the first step.

    Args:
        tensors: Parameters and buffers of the model; of `DTensor`s, what this process holds.
        membership: Who the nodes are.
        broadcast: Whether to start from node 0's; the nodes' own must be equal otherwise.

    """

    def __init__(self, tensors: list[Tensor], membership: Membership, *, broadcast: bool) -> None:
        self._tensors = tensors
        self._membership = membership
        self._checked = broadcast
        self._overwritten: list[tuple[Tensor, Tensor, Tensor, int]] = []
        """Each with its value before and after the broadcast, and torch's count of writes."""
        if broadcast:
            self._broadcast()

    @torch.no_grad()
    def _broadcast(self) -> None:
        """One message for all tensors of one type and device."""
        kinds: dict[tuple[object, ...], list[Tensor]] = {}
        for tensor in self._tensors:
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for tensors in kinds.values():
            shards = [local(tensor) for tensor in tensors]
            joined = torch.cat([shard.reshape(-1) for shard in shards])
            broadcast(joined, self._membership, "the first broadcast")
            parts = torch.split(joined, [shard.numel() for shard in shards])
            for tensor, shard, part in zip(tensors, shards, parts, strict=True):
                self._overwrite(tensor, part.view(shard.shape))

    def _overwrite(self, tensor: Tensor, value: Tensor) -> None:
        shard = local(tensor)
        if not torch.equal(value, shard):
            before = shard.clone()
            shard.copy_(value)
            self._overwritten.append((tensor, before, value, tensor._version))

    @torch.no_grad()
    def undo(self) -> None:
        """Restore the values before the broadcast, where nothing has been written since."""
        for (
            tensor,
            before,
            value,
            version,
        ) in self._overwritten:  # p.data.copy_ is not counted by torch
            if tensor._version == version and torch.equal(local(tensor), value):
                local(tensor).copy_(before)
        self.finish(resumed=True)

    def finish(self, *, resumed: bool) -> None:
        """At the first step: forget the values before the broadcast.

        Raises:
            BasegraphError: Nodes differ, without a broadcast and without being resumed.

        """
        if not self._checked and not resumed:
            digest = hashlib.sha256()
            for tensor in self._tensors:
                numbers = local(tensor).cpu().reshape(-1)
                digest.update(numbers.view(torch.uint8).numpy().data)
            facts: dict[str, object] = {"initial model, and broadcast=False": digest.hexdigest()}
            require_alike(facts, self._membership)
        self._checked = True
        self._overwritten = []
        self._tensors = []
