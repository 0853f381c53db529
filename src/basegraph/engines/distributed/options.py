"""The options of a node, whatever moves its model: one of our methods or a torch optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from basegraph.engines.distributed.membership.progress import TIMEOUT, seconds
from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least
from basegraph.wires.catalog import wire
from basegraph.wires.contract import Wire

ORDERS = ("adapt-then-combine", "combine-then-adapt")
BUFFERS = ("local", "average")


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """How a node takes part: what it exchanges, when, and what it saves.

    Example:
        >>> NodeOptions(order="combine-then-adapt").overlapped
        True
        >>> NodeOptions(local_steps=0)
        Traceback (most recent call last):
        basegraph.errors.InvalidArgument: local_steps=0: must be an integer ≥ 1

    """

    model: nn.Module | None = None
    """The module that is trained: its buffers and frozen parameters start as node 0's."""
    buffers: str = "local"
    """"local", or "average": buffers are mixed at every step, as parameters are."""
    broadcast: bool = True
    """Whether all nodes start with node 0's model."""
    local_steps: int = 1
    """Steps per exchange."""
    order: str = "adapt-then-combine"
    """Whether the exchange comes after the step of the method, or behind the next gradient."""
    timeout: float = TIMEOUT
    """Seconds after which a neighbor counts as lost."""
    wire: str | torch.dtype | Wire | None = None
    """How parameters are sent: a spec such as "int8" or a type; in their own type if None."""
    refuse_nonfinite: bool = True
    """Refuse NaN and infinity, from neighbors and in what this node sends."""
    checkpoint: str | Path | None = None
    """A folder for what this node saves at a fault."""
    checkpoint_every: int = 0
    """Save there at every so many steps, too; 0 for never."""
    stop_with_torchrun: bool = True
    """Whether the end of torchrun is a request to stop; False where the caller takes care of it."""

    def __post_init__(self) -> None:
        for name, accepted in (("order", ORDERS), ("buffers", BUFFERS)):
            value = getattr(self, name)
            if value not in accepted:
                raise InvalidArgument(name, value, f"must be one of {', '.join(accepted)}")
        if self.buffers == "average" and self.model is None:
            raise InvalidArgument("buffers", self.buffers, "needs model=, the module that has them")
        at_least(1, local_steps=self.local_steps)
        seconds(self.timeout)
        if self.wire is not None:
            wire(self.wire)
        at_least(0, checkpoint_every=self.checkpoint_every)
        if self.checkpoint_every and self.checkpoint is None:
            raise InvalidArgument(
                "checkpoint_every", self.checkpoint_every, "needs checkpoint=, a folder"
            )

    @property
    def overlapped(self) -> bool:
        """Whether the exchange runs behind the next forward and backward pass."""
        return self.order == "combine-then-adapt"

    @property
    def sends_by(self) -> Wire | None:
        """The wire, or None where parameters are sent as they are."""
        return None if self.wire is None else wire(self.wire)

    def common(self) -> dict[str, object]:
        """What must be the same on all nodes, by name."""
        return {
            "wire": None if self.sends_by is None else self.sends_by.spec,
            "checkpoint": self.checkpoint is not None,
            "checkpoint_every": self.checkpoint_every,
            "broadcast": self.broadcast,
            "local_steps": self.local_steps,
            "order": self.order,
            "buffers": self.buffers,
        }
