"""What a node does when nodes join and leave: it meets the others, and continues with them.

Nothing is half mixed: a node's model and state are those of its last completed step until an
exchange is complete. After a change the topology is built anew for the nodes that are there, from
round 0, and all go on at the largest step among those that keep their models.
"""

from __future__ import annotations

import logging
import time
from typing import Any, NamedTuple, Protocol

from basegraph.engines.distributed.handover import hand_over, take_over
from basegraph.engines.distributed.membership.live import LiveMembership
from basegraph.engines.distributed.membership.meeting import Meeting
from basegraph.engines.distributed.node import Node
from basegraph.errors import PeerLost

LOG = logging.getLogger("basegraph")


class MembershipChange(NamedTuple):
    """A change of the nodes, as `on_membership_change` is told."""

    members: list[str]
    """The nodes that are there now, by name."""
    node: int
    """The number of this node among them."""
    joined: list[str]
    left: list[str]
    step: int
    """Steps made so far: all nodes go on here."""
    replaced: bool
    """Whether this node has taken another's model: it has just come, or was left behind."""
    epoch: int
    """Counts the changes."""

    def __str__(self) -> str:
        news = [f"{len(self.members)} nodes from step {self.step} on"]
        for word, names in (("joined", self.joined), ("left", self.left)):
            if names:
                news.append(f"{word}: {', '.join(names)}")
        return "; ".join(news)


class Portable(Protocol):
    """What is trained on a node: an optimizer, or the engine of a run."""

    @property
    def gossip_step(self) -> int:
        """Steps made so far."""

    @property
    def all_models_equal(self) -> bool:
        """Whether all nodes hold the same model at every step, as with all-reduce."""

    def pack(self) -> dict[str, Any]:
        """What a node that comes needs to go on as this one."""

    def unpack(self, content: dict[str, Any]) -> None:
        """Go on as the node that has packed this."""

    def settle(self, meeting: Meeting) -> int:
        """Agree with the nodes of a meeting, which are connected, on the step at which all go on.

        Raises:
            PeerLost: One of them is lost; nothing has changed here.

        """

    def nodes_changed(self, change: MembershipChange) -> None:
        """Go on with other nodes at the step of the change."""

    @property
    def asked_to_stop(self) -> bool:
        """Whether to wait for other nodes no longer."""

    def leave(self) -> BaseException:
        """Save what there is; the exception that ends this process."""


class Turnover:
    """Meets the other nodes: at the start, now and then, and when an exchange has failed.

    Args:
        node: The node.
        membership: The same as the node's.
        trained: What is trained.

    """

    def __init__(self, node: Node, membership: LiveMembership, trained: Portable) -> None:
        self.node = node
        self.membership = membership
        self.trained = trained
        self._looked = 0, time.monotonic()
        self.joined = False
        """Whether nodes have joined at the last meeting: they begin at the top of a loop."""

    def start(self) -> None:
        """Meet for the first time: found the job with the others, or join them."""
        self._meet(broken=True)

    def after_step(self) -> None:
        """Meet, if that is due after the step that was completed."""
        agreed, self.membership.agreed = self.membership.agreed, None
        if agreed is not None:
            self._plan(agreed.step, agreed)
        if self.node.meetings.due(self.trained.gossip_step):
            self._meet(broken=False)

    def recover(self, error: PeerLost) -> bool:
        """Go on after an exchange that has failed; nothing has moved in it.

        Returns:
            Whether the model was replaced, so that a gradient that was taken before is void.

        Raises:
            PeerLost: The others cannot be found; this node is saved.

        """
        LOG.info("%s", error)
        return self._meet(broken=True)

    def _meet(self, *, broken: bool) -> bool:
        node, membership = self.node, self.membership
        self.joined, began = False, time.monotonic()
        while True:
            step = self.trained.gossip_step
            try:
                meeting = membership.meet(
                    step, broken=broken, seconds=self._seconds(), interrupted=self._stopped
                )
            except PeerLost as error:
                raise node.saved_after(error, step) from None
            if self._stopped():
                raise self.trained.leave()
            if meeting is None or not meeting.changed:
                self._plan(step if meeting is None else meeting.step, meeting)
                return False
            try:
                membership.connect(meeting, self._stopped)
                replaced = self._hand_over(meeting)
                step = self.trained.settle(meeting)
            except PeerLost as error:
                LOG.info("%s", error)
                if time.monotonic() - began > membership.timeout + membership.timeout:
                    raise node.saved_after(error, step) from None
                broken = True
                continue
            membership.begin_epoch(meeting)
            self._begin(meeting, step, replaced=replaced)
            return replaced

    def _hand_over(self, meeting: Meeting) -> bool:
        """Whether this node has taken the source's model."""
        keeps = meeting.keeps
        if self.trained.all_models_equal:
            keeps = [node == meeting.source for node in range(len(keeps))]
        receivers = [node for node, keep in enumerate(keeps) if not keep]
        if self.membership.node == meeting.source and receivers:
            content = {"trained": self.trained.pack(), "node": self.node.pack()}
            hand_over(content, receivers, self.membership)
        if keeps[self.membership.node]:
            return False
        content = take_over(meeting.source, self.membership)
        self.node.exchanges.drop()
        self.trained.unpack(content["trained"])
        self.node.unpack(content["node"])
        return True

    def _begin(self, meeting: Meeting, step: int, *, replaced: bool) -> None:
        now, before = meeting.members, meeting.before
        self.node.rebuild(step)
        change = MembershipChange(
            now,
            self.membership.node,
            [name for name in now if name not in before],
            [name for name in before if name not in now],
            step,
            replaced,
            meeting.epoch,
        )
        self.joined = bool(change.joined)
        if self.membership.node == 0:
            LOG.warning("%s", change)
        self._plan(step, meeting)
        self.trained.nodes_changed(change)

    def _plan(self, step: int, meeting: Meeting | None) -> None:
        """When to meet next: the same step at all nodes."""
        self.node.meetings.after(step, self.node.topology, meeting.seconds if meeting else None)
        self._looked = step, time.monotonic()

    def _seconds(self) -> float:
        """What a step takes here, since the last meeting."""
        step, began = self._looked
        steps = self.trained.gossip_step - step
        return (time.monotonic() - began) / steps if steps > 0 else 0.0

    def _stopped(self) -> bool:
        return self.trained.asked_to_stop
