"""What a membership offers: who the nodes are, and how far each has got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

import torch

from basegraph.errors import PeerLost

T = TypeVar("T")


class WaitEnded(RuntimeError):
    """A wait that was ended: whoever was waited for is dead, or has met without this node."""


class ProgressReports(Protocol):
    """What the nodes of a membership know of each other, to name one that is lost."""

    @property
    def size(self) -> int:
        """How many nodes there are."""

    @property
    def timeout(self) -> float:
        """Seconds after which a node counts as lost."""

    @property
    def gave_up_at(self) -> float:
        """When this node first gave up waiting, by `time.monotonic`."""

    def reached(self, phase: str, *, routine: bool = False) -> None:
        """Report that this node enters a collective."""

    def stops(self, reason: str) -> None:
        """Report that this node stops for a reason of its own: it is not the lost one."""

    def peer_lost(self, peer: int | None, where: str, error: Exception, waited: float) -> PeerLost:
        """The exception for a wait that has failed."""


class Membership(Protocol):
    """Who the nodes are at present.

    Everything that exchanges messages is given one, and asks it at every call. `fixed` has the
    nodes that were there at the start, `live` those that are alive.
    """

    @property
    def node(self) -> int:
        """The number of this node, from 0 to n - 1."""

    @property
    def n(self) -> int:
        """How many nodes there are."""

    @property
    def epoch(self) -> int:
        """Counts the changes of membership; 0 where there are none."""

    @property
    def members(self) -> list[str]:
        """A name for every node, in their order."""

    @property
    def group(self) -> Any:
        """The process group whose ranks are the nodes, in their order."""

    @property
    def only_gloo(self) -> bool:
        """Whether the group has no other backend than gloo."""

    @property
    def device(self) -> torch.device:
        """Where the messages are by which nodes compare their settings."""

    @property
    def timeout(self) -> float:
        """Seconds after which a node counts as lost."""

    @property
    def progress(self) -> ProgressReports:
        """What the nodes know of each other, to name one that is lost."""

    def on(self, device: torch.device) -> Self:
        """The same nodes, with messages on another device."""

    def wait(self, call: Callable[[], T]) -> T:
        """Make a call that waits for other nodes: it ends when one of them turns out to be dead.

        Raises:
            WaitEnded: It was ended.

        """

    def end_waits(self) -> None:
        """End the waits for other nodes, from another thread."""
