"""How nodes begin alike, without losing a model that was loaded before."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from basegraph.engines.distributed.collectives import broadcast
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.handshake import require_alike


class Beginning:
    """Tensors that begin as node 0's; what they were before can be had back.

    A job that is resumed usually loads the model, builds the optimizer and loads the optimizer's
    state. Only the last says that the job had begun before, and that every node has a model of its
    own: so building the optimizer remembers what it overwrites, until the first step.
    """

    def __init__(self, tensors: list[Tensor], membership: Membership, *, broadcast: bool) -> None:
        self._tensors = tensors
        self._membership = membership
        self._checked = broadcast
        self._before: list[tuple[Tensor, Tensor, Tensor, int]] = []
        """Each with what it was before and after the broadcast, and torch's count of writes."""
        if broadcast:
            self._broadcast()

    @torch.no_grad()
    def _broadcast(self) -> None:
        """One message for all tensors of a kind, however many there are."""
        kinds: dict[tuple[object, ...], list[Tensor]] = {}
        for tensor in self._tensors:
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for tensors in kinds.values():
            whole = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
            broadcast(whole, self._membership, "the first broadcast")
            parts = torch.split(whole, [tensor.numel() for tensor in tensors])
            for tensor, part in zip(tensors, parts, strict=True):
                self._begin_at(tensor, part.view(tensor.shape))

    def _begin_at(self, tensor: Tensor, value: Tensor) -> None:
        if not torch.equal(value, tensor):
            own = tensor.detach().clone()
            tensor.copy_(value)
            self._before.append((tensor, own, value, tensor._version))

    @torch.no_grad()
    def undo(self) -> None:
        """Give back what was there before, where nothing has been written since."""
        for tensor, own, value, version in self._before:  # p.data.copy_ is not counted by torch
            if tensor._version == version and torch.equal(tensor, value):
                tensor.copy_(own)
        self.over(resumed=True)

    def over(self, *, resumed: bool) -> None:
        """At the first step: forget what was there before.

        Nodes whose tensors were not broadcast must be alike then, unless they have been resumed.
        """
        if not self._checked and not resumed:
            digest = hashlib.sha256()
            for tensor in self._tensors:
                digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
            facts: dict[str, object] = {"initial model, and broadcast=False": digest.hexdigest()}
            require_alike(facts, self._membership)
        self._checked = True
        self._before = []
        self._tensors = []
