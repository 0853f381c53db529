"""Requests to stop: a signal (a scheduler's, torchrun's, Ctrl-C), or the end of torchrun.

A node completes the step under way, and saves and exits before the next one. If that takes longer
than `deadline.STOP_SECONDS`, it saves and exits where it is.
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
from basegraph.engines.signals import SignalLog

PACKAGE = __name__.partition(".")[0]


class Stoppable(Protocol):
    """An optimizer."""

    def stop_here(self) -> None:
        """Save and say so, before the process ends."""


_LOG = SignalLog()
_DEADLINES: list[Deadline] = []
_STOPPABLE: WeakSet[Any] = WeakSet()


class StopRequest:
    """Whether this node is to stop; checked before every step.

    Args:
        watch_torchrun: Whether the end of torchrun is a request to stop, too.

    """

    def __init__(self, *, watch_torchrun: bool = True) -> None:
        self._watch_torchrun = watch_torchrun

    def listen(self, optimizer: Stoppable, membership: Membership) -> None:
        """Handle SIGTERM and SIGINT from now on, unless the script has handlers of its own.

        At a prompt or in a notebook, SIGINT interrupts the cell, not the process.
        """
        defaults: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL}
        if not hasattr(sys, "ps1"):
            defaults[signal.SIGINT] = signal.default_int_handler
        _LOG.install(*(n for n, default in defaults.items() if signal.getsignal(n) is default))
        if not any(map(_LOG.handles, defaults)):
            return
        if not _DEADLINES:
            _DEADLINES.append(Deadline(_LOG, _overdue))
        _STOPPABLE.add(optimizer)
        _DEADLINES[0].memberships.add(membership)

    @property
    def reason(self) -> str | None:
        """What this node is stopped by, or None as long as it is not."""
        if _LOG.received:
            return signal.Signals(_LOG.received[0]).name
        return "the end of torchrun" if self._watch_torchrun and orphaned() else None

    def came_before(self, moment: float) -> bool:
        """Whether this node was asked to stop before that moment, by `time.monotonic`."""
        signaled = _LOG.first_at is not None and _LOG.first_at < moment
        return signaled or (self._watch_torchrun and orphaned())

    def exit(self) -> SystemExit:
        """The exception that ends the process; from now on there is no deadline."""
        for deadline in _DEADLINES:
            deadline.nudges = False
        return SystemExit(128 + _LOG.received[0] if _LOG.received else 1)


def _overdue(frame: FrameType | None) -> None:
    """Save and exit here, unless the process is inside of this package, which does so itself."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
            return
        frame = frame.f_back
    for optimizer in list(_STOPPABLE):
        optimizer.stop_here()
    raise StopRequest().exit()
