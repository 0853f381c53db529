"""What a membership offers: who the nodes are, and how far each has got."""

from __future__ import annotations

from typing import Any, Protocol, Self

import torch

from basegraph.engines.distributed.membership.progress import Progress


class Membership(Protocol):
    """Who the nodes are at present.

    Everything that exchanges messages is given one, and asks it at every call. `fixed` has the
    nodes that were there at the start.
    """

    @property
    def node(self) -> int:
        """The number of this node, from 0 to n - 1."""

    @property
    def n(self) -> int:
        """How many nodes there are."""

    @property
    def group(self) -> Any:
        """The process group whose ranks are the nodes, in their order."""

    @property
    def device(self) -> torch.device:
        """Where the messages are by which nodes compare their settings."""

    @property
    def timeout(self) -> float:
        """Seconds after which a node counts as lost."""

    @property
    def progress(self) -> Progress:
        """What the nodes know of each other, to name one that is lost."""

    def on(self, device: torch.device) -> Self:
        """The same nodes, with messages on another device."""
