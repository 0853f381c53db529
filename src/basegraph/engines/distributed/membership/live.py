"""The nodes that are alive: they join and leave, and torchft's lighthouse knows who is there.

A node asks the lighthouse who is alive: at its start, when an exchange has failed, and now and
then. All nodes of a quorum get the same answer, in which every node has described itself, and
decide by it alone (`meeting.py`), so that all decide alike. Then they connect.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast
from weakref import WeakSet

import torch

from basegraph.engines.distributed.bounded import end_gloo_waits
from basegraph.engines.distributed.membership.connecting import Connector, NotConnected
from basegraph.engines.distributed.membership.contract import WaitEnded
from basegraph.engines.distributed.membership.gloo import own_host
from basegraph.engines.distributed.membership.lighthouse import (
    LighthouseGone,
    Quorum,
    require_address,
    torchft_coordination,
)
from basegraph.engines.distributed.membership.live_progress import LiveProgress
from basegraph.engines.distributed.membership.meeting import (
    Meeting,
    decide,
    is_early,
    is_unchanged,
)
from basegraph.engines.distributed.membership.progress import TIMEOUT
from basegraph.engines.distributed.membership.registration import Registration, Standing
from basegraph.engines.distributed.membership.torchrun import max_restarts
from basegraph.engines.distributed.membership.waiter import Waiter
from basegraph.engines.distributed.membership.watch import SUSPICIOUS, Wait, WaitWatch
from basegraph.errors import BasegraphError, InvalidArgument, PeerLost

T = TypeVar("T")
LOG = logging.getLogger("basegraph")
CPU = torch.device("cpu")
LATE = 2.0
"""Seconds of waiting for other nodes after which this node takes part in meetings meanwhile."""
RETRY = 0.2
"""Seconds between two attempts to reach a lighthouse that is gone."""
_OPEN: WeakSet[LiveMembership] = WeakSet()


class LiveMembership:
    """The nodes that are registered with a lighthouse.

    Args:
        lighthouse: The address of the lighthouse; None takes `TORCHFT_LIGHTHOUSE`.
        timeout: Seconds after which a node that is alive and does not answer counts as lost, and
            for which nodes wait for a lighthouse that is gone when they need it.

    Raises:
        MissingExtra: torchft is not installed.
        InvalidArgument: The address is wrong, or nothing answers there, or torchrun would end the
            other nodes when one is lost.

    """

    def __init__(self, lighthouse: str | None = None, timeout: float = TIMEOUT) -> None:
        torchft_coordination()
        address = require_address(lighthouse)
        if max_restarts() > 0:
            raise InvalidArgument(
                "membership",
                "live",
                "torchrun --max-restarts ends all nodes when one is lost; start the nodes with "
                "`basegraph launch`",
            )
        if len(_OPEN):
            raise InvalidArgument("membership", "live", "is for one optimizer per process")
        self.timeout = timeout
        self.device = CPU
        host = own_host(address)
        self._registration = Registration(address, host)
        self._lighthouse = self._registration.lighthouse
        self.name = self._registration.name
        self.epoch = 0
        """The last epoch that this node has met for."""
        self.members = [self.name]
        self.node = 0
        self._settled: list[str] = []  # the members when this node last took part
        self._broken = False
        self.progress = LiveProgress([self.name], 0, timeout)
        self._connector = Connector(host, timeout)
        self._group = self._connector.alone()
        self._answering = False
        self._last_asked = 0, 0.0
        self.agreed: Meeting | None = None
        """A meeting that this node took part in from a thread; nothing has changed there."""
        self._watch = WaitWatch(self)
        self._waiter = Waiter()
        _OPEN.add(self)

    @property
    def n(self) -> int:
        """How many nodes there are."""
        return len(self.members)

    @property
    def group(self) -> Any:
        """The gloo group whose ranks are the nodes, in their order; None while there is none."""
        return self._group

    @property
    def only_gloo(self) -> bool:
        """Whether the group has no other backend than gloo."""
        return True

    def on(self, device: torch.device) -> LiveMembership:
        """The same nodes: messages are in the host's memory, as gloo wants them.

        Raises:
            InvalidArgument: The parameters are on a device from which gloo takes nothing.

        """
        if device.type not in ("cpu", "cuda"):
            raise InvalidArgument(
                "membership", "live", f"is for parameters on a CPU or a CUDA GPU, not on {device}"
            )
        return self

    def introduce(self, facts: Mapping[str, object]) -> None:
        """Say what must be the same on all nodes, by name, before the first meeting."""
        self._registration.introduce(facts)

    def close(self) -> None:
        """Leave: no heartbeats any more, and no connections."""
        self._lighthouse.close()
        self.end_waits()
        self._group = None
        self._connector.close()
        self._waiter.close()
        _OPEN.discard(self)

    # -- meetings ----------------------------------------------------------------------------

    def meet(
        self, step: int, *, broken: bool, seconds: float, interrupted: Callable[[], bool]
    ) -> Meeting | None:
        """Ask who is alive, together with all that are.

        Args:
            step: Steps that this node has completed.
            broken: Whether an exchange has failed.
            seconds: What a step takes here.
            interrupted: Whether to stop waiting.

        Returns:
            Who the nodes are; None if that stays as it is because the lighthouse is gone, or if
            interrupted.

        Raises:
            PeerLost: The lighthouse is gone although it is needed, or a node that is alive does not
                ask, for longer than the timeout.
            BasegraphError: This node is refused by the others.

        """
        if broken:
            self.drop_group()
        end = time.monotonic() + self.timeout
        warned = False
        while not interrupted():
            try:
                quorum = self._ask(step, seconds, end - time.monotonic(), interrupted)
            except TimeoutError:
                raise self._lost("a live node did not join the quorum") from None
            except LighthouseGone as error:
                if not self._broken:
                    self._registration.freeze(error, self.n)
                    return None
                if time.monotonic() > end:
                    raise self._lost(f"{error}, and a node is lost") from None
                if not warned:
                    LOG.warning(
                        "%s: %s, and a node is lost: waiting up to %g s for the lighthouse",
                        *(self.name, error, self.timeout),
                    )
                    warned = True
                time.sleep(RETRY)
                continue
            if quorum is None:
                break
            self._lighthouse.handled(quorum)
            if is_early(quorum.participants):
                time.sleep(RETRY / 2)
            elif not self._broken or not is_unchanged(quorum.participants):
                return self._decide(quorum)
        return None

    def _decide(self, quorum: Quorum) -> Meeting:
        meeting = decide(quorum.key, quorum.participants)
        what = meeting.refused.get(self.name)
        if what is not None:
            self.close()
            own = self._registration.own_value(what)
            raise BasegraphError(
                f"{self.name} was refused: it differs from {meeting.source_name} in {what!r}{own}"
            )
        if meeting.members[0] == self.name:
            for name, what in meeting.refused.items():
                LOG.warning("%s was refused: it differs from the others in %r", name, what)
        if meeting.changed and meeting.keeps[meeting.members.index(self.name)]:
            # Even if the nodes fail to connect: those that met are not behind each other.
            self.epoch = meeting.epoch
        return meeting

    def drop_group(self) -> None:
        """Close this node's connections: its neighbors learn from that that something is wrong."""
        self._broken = True
        self.end_waits()
        self._group = None

    def connect(self, meeting: Meeting, interrupted: Callable[[], bool]) -> None:
        """Connect to the other nodes of a meeting.

        Raises:
            PeerLost: One of them did not come, or died.

        """
        self.drop_group()
        node, size = meeting.members.index(self.name), len(meeting.members)
        dead = threading.Event()

        def obstacle() -> str:
            if dead.is_set() or interrupted():
                return "a node did not connect"
            # Or this node was stopped, and has met in a thread since.
            return "the others have met again" if self._lighthouse.has_news else ""

        try:
            with self._watch.over(self._others(meeting.members), dead.set):
                self._group = self._connector.connect(
                    meeting.store, meeting.key, node, size, obstacle
                )
        except NotConnected as error:
            raise self._lost(str(error)) from None
        self.members, self.node = meeting.members, node
        self.progress = LiveProgress(self.members, self.node, self.timeout)

    def begin_epoch(self, meeting: Meeting) -> None:
        """Take part from now on: this node is connected and has its model."""
        self.epoch = meeting.epoch
        self._settled = meeting.members
        self._broken = False

    # -- waits -------------------------------------------------------------------------------

    def wait(self, call: Callable[[], T]) -> T:
        """Make a call that waits for other nodes: it ends when one of them turns out to be dead.

        Raises:
            WaitEnded: It was ended.

        """
        made = self._waiter.begin(call)
        with self._watch.over(self._others(self.members), made.leave):
            try:
                return cast("T", made.result())
            except WaitEnded:
                self._waiter.renew()
                raise

    def end_waits(self) -> None:
        """End the wait for other nodes, from another thread, and this node's connections."""
        wait = self._watch.current
        if wait is not None:
            wait.end()
        if self._group is not None:
            end_gloo_waits(self._group, self.node, self.n)

    def look_into(self, wait: Wait) -> None:
        """While this node waits: see whether those it waits for are alive, or wait in a meeting."""
        if self._lighthouse.silent(wait.names) and self._watch.current is wait:
            wait.end()
        late = wait.seconds > (SUSPICIOUS if self._registration.frozen else LATE)
        if late and not self._broken and self._lighthouse.answers and not self._answering:
            self._answering = True
            threading.Thread(target=self._answer, args=[wait], daemon=True).start()

    def _answer(self, wait: Wait) -> None:
        """Take part in a meeting from a thread, while this node waits in an exchange.

        Those that it waits for may wait in a meeting for this node: it has left that out when the
        lighthouse was gone.
        """
        try:
            step, seconds = self._last_asked
            quorum = self._ask(step, seconds, self.timeout, lambda: self._watch.current is not wait)
            if quorum is None or self._broken:
                return
            if is_early(quorum.participants):
                self._lighthouse.handled(quorum)
            elif is_unchanged(quorum.participants):
                self._lighthouse.handled(quorum)
                self.agreed = self._decide(quorum)
            elif self._watch.current is wait:
                wait.end()
        except (LighthouseGone, TimeoutError):
            return  # the next look asks again
        finally:
            self._answering = False

    # -- the lighthouse ----------------------------------------------------------------------

    def _ask(
        self, step: int, seconds: float, limit: float, interrupted: Callable[[], bool]
    ) -> Quorum | None:
        self._last_asked = step, seconds
        standing = Standing(step, seconds, self.epoch, self._settled, self._broken)
        return self._registration.ask(standing, limit, interrupted)

    def _others(self, names: list[str]) -> list[str]:
        return [name for name in names if name != self.name]

    def _lost(self, why: str) -> PeerLost:
        return PeerLost(f"{self.name} (node {self.node} of {self.n}): {' '.join(why.split())}")


@atexit.register
def _close_all() -> None:
    for membership in list(_OPEN):
        membership.close()
