"""Requests to stop: a signal (a scheduler's, torchrun's, Ctrl-C), or the end of torchrun.

A node completes the step under way, and saves and exits before the next one. If that takes longer
than `deadline.STOP_SECONDS`, it saves and exits where it is.
"""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Protocol
from weakref import ReferenceType, WeakSet, ref

import torch.distributed as dist

from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.torchrun import orphaned
from basegraph.engines.distributed.shutdown.deadline import Deadline
from basegraph.engines.signals import SignalLog, inside_package


class Stoppable(Protocol):
    """An optimizer."""

    def stop_here(self) -> None:
        """Save and say so, before the process ends."""

    def rescue_here(self) -> str:
        """Save, because another optimizer of this process has lost a node; says where."""


_LOG = SignalLog()
_DEADLINES: list[Deadline] = []
_UNSAVED: WeakSet[StopRequest] = WeakSet()
"""Those of the optimizers of this process that are to be saved before it ends."""


class StopRequest:
    """Whether this node is to stop; checked before every step.

    Args:
        watch_torchrun: Whether the end of torchrun is a request to stop, too.

    """

    def __init__(self, *, watch_torchrun: bool = True) -> None:
        self._watch_torchrun = watch_torchrun
        self._optimizer: ReferenceType[Stoppable] | None = None
        self._group: ReferenceType[Any] | None = None
        self._folder: Path | None = None
        self._stepped = False

    def listen(self, optimizer: Stoppable, membership: Membership, folder: Path) -> None:
        """Handle SIGTERM and SIGINT from now on, unless the script has handlers of its own.

        At a prompt or in a notebook, SIGINT interrupts the cell, not the process.

        Args:
            optimizer: What is to be saved.
            membership: The nodes it waits for.
            folder: Where it is saved.

        """
        self._optimizer, self._folder = ref(optimizer), folder
        self._group = None if membership.group is None else ref(membership.group)
        _UNSAVED.add(self)
        defaults: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL}
        if not hasattr(sys, "ps1"):
            defaults[signal.SIGINT] = signal.default_int_handler
        _LOG.install(*(n for n, default in defaults.items() if signal.getsignal(n) is default))
        if not any(map(_LOG.handles, defaults)):
            return
        if not _DEADLINES:
            _DEADLINES.append(Deadline(_LOG, _overdue))
            atexit.register(_save_at_exit)
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

    def stepped(self) -> None:
        """The optimizer of this request has moved: what was saved of it is not the newest."""
        self._stepped = True
        if self._optimizer is not None:
            _UNSAVED.add(self)

    def saved(self) -> None:
        """The optimizer of this request is saved, or cannot be."""
        _UNSAVED.discard(self)

    def stop_others(self) -> None:
        """Save the other optimizers of this process (a GAN has two), which ends now."""
        for optimizer in self._others():
            optimizer.stop_here()

    def rescue_others(self) -> str:
        """Save the other optimizers of this process, which has lost a node; says where."""
        said = [optimizer.rescue_here() for optimizer in self._others()]
        return "".join(f"; {line}" for line in said if line)

    def _others(self) -> list[Stoppable]:
        """Those that have moved, on a process group that still exists, with another folder."""
        moved = [other for other in _UNSAVED if other._stepped and _is_registered(other._group)]
        return _optimizers(other for other in moved if other._folder != self._folder)

    def exit(self) -> SystemExit:
        """The exception that ends the process; from now on there is no deadline."""
        for deadline in _DEADLINES:
            deadline.nudges = False
        return SystemExit(128 + _LOG.received[0] if _LOG.received else 1)


def _overdue(frame: FrameType | None) -> None:
    """Save and exit here, unless the process is inside this package, which does so itself."""
    if inside_package(frame):
        return
    for optimizer in _optimizers(_UNSAVED):
        optimizer.stop_here()
    raise StopRequest().exit()


def _save_at_exit() -> None:
    """Save where an error ends a process that was asked to stop, or has lost a loader's worker.

    A signal for all processes may end the workers of a DataLoader first, which then raises an error
    before the signal has arrived here.
    """
    error = getattr(sys, "last_value", None)
    if error is None:
        return
    if _LOG.received or str(error).startswith("DataLoader worker"):
        for optimizer in _optimizers(_UNSAVED):
            optimizer.stop_here()


def _optimizers(requests: Iterable[StopRequest]) -> list[Stoppable]:
    known = [None if r._optimizer is None else r._optimizer() for r in requests]
    return [optimizer for optimizer in known if optimizer is not None]


def _is_registered(group: ReferenceType[Any] | None) -> bool:
    """Whether this process group was not destroyed."""
    known = None if group is None else group()
    try:
        return known is not None and bool(dist.get_process_group_ranks(known))
    except (ValueError, RuntimeError):
        return False
