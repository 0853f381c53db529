"""Names a node that does not answer, where nodes join and leave.

The lighthouse decides who is dead, so nodes need not find that out from each other.
"""

from __future__ import annotations

import math
import re
import time

from basegraph.errors import PeerLost


class LiveProgress:
    """What is said of a wait that has failed.

    Args:
        members: The nodes' names.
        node: The number of this node.
        timeout: Seconds after which a node counts as lost.

    """

    def __init__(self, members: list[str], node: int, timeout: float) -> None:
        self.members = members
        self.node = node
        self.timeout = timeout
        self.gave_up_at = math.inf
        """When this node first gave up waiting, by `time.monotonic`."""

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.members)

    def reached(self, phase: str, *, routine: bool = False) -> None:
        """Report that this node enters a collective: no other node needs to know."""

    def stops(self, reason: str) -> None:
        """Report that this node stops: the lighthouse notices."""

    def peer_lost(self, peer: int | None, where: str, error: Exception, waited: float) -> PeerLost:
        """The exception for a wait that has failed."""
        self.gave_up_at = min(self.gave_up_at, time.monotonic())
        who = "a node" if peer is None else f"node {peer} ({self.members[peer]})"
        reason = re.sub(r"^\[\S*\] ", "", " ".join(str(error).split())).partition(". ")[0][:160]
        return PeerLost(
            f"node {self.node} ({self.members[self.node]}): {who} did not answer at {where} "
            f"(waited {waited:.2f} s): {reason or 'timed out'}",
            peer,
        )
