"""Being asked to stop, by a signal (a scheduler's, torchrun's, Ctrl-C) or by torchrun's end.

A node that is asked completes the step that it is in, and saves and ends before the next one. If
that takes longer than `deadline.GRACE`, it saves and ends where it is.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any, Protocol
from weakref import WeakSet

from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.torchrun import orphaned
from basegraph.engines.distributed.shutdown.deadline import Deadline
from basegraph.engines.signals import Asked

PACKAGE = __name__.partition(".")[0]


class Stoppable(Protocol):
    """An optimizer."""

    def stop_here(self) -> None:
        """Save and say so, before the process ends."""


_ASKED = Asked()
_DEADLINES: list[Deadline] = []
_STOPPABLE: WeakSet[Any] = WeakSet()


class StopRequest:
    """Whether to stop, asked before every step."""

    enabled = True
    """Off where whoever makes the steps looks after their end."""

    def heed(self, optimizer: Stoppable, membership: Membership) -> None:
        """Note SIGTERM and SIGINT from now on, except those that somebody else handles.

        At a prompt or in a notebook, SIGINT stops what was typed, not the process.
        """
        defaults: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL}
        if not hasattr(sys, "ps1"):
            defaults[signal.SIGINT] = signal.default_int_handler
        _ASKED.heed(*(n for n, default in defaults.items() if signal.getsignal(n) is default))
        if not any(map(_ASKED.heeds, defaults)):
            return
        if not _DEADLINES:
            _DEADLINES.append(Deadline(_ASKED, _overdue))
        _STOPPABLE.add(optimizer)
        if membership.n > 1:
            _DEADLINES[0].groups.add(membership.group)

    @property
    def reason(self) -> str | None:
        """What this node is stopped by, or None as long as it is not."""
        if _ASKED.told:
            return signal.Signals(_ASKED.told[0]).name
        return "the end of torchrun" if self.enabled and orphaned() else None

    def came_before(self, moment: float) -> bool:
        """Whether this node was asked before that moment, by `time.monotonic`."""
        asked = _ASKED.since is not None and _ASKED.since < moment
        return asked or (self.enabled and orphaned())

    def obeyed(self) -> SystemExit:
        """What to raise: from now on nobody looks after the end."""
        for deadline in _DEADLINES:
            deadline.nudges = False
        return SystemExit(128 + _ASKED.told[0] if _ASKED.told else 1)


def _overdue(frame: FrameType | None) -> None:
    """Stop here, unless the process is inside of this package: there it stops by itself."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
            return
        frame = frame.f_back
    for optimizer in list(_STOPPABLE):
        optimizer.stop_here()
    raise StopRequest().obeyed()
