"""A node that is asked to stop does so in time, also while it waits inside torch.

torchrun and schedulers kill a process that has not ended 30 seconds after their signal. Python
handles signals between two of its own instructions only, so a thread looks after the time.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from weakref import WeakSet

from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.signals import ECHO, STOP_SIGNALS, SignalLog

STOP_SECONDS = 10.0
"""Seconds that a node which is asked to stop has to complete its step."""
NUDGE = signal.SIGURG
"""The signal that interrupts the main thread; ignored by default."""


class Deadline:
    """Ends every wait for other nodes `STOP_SECONDS` seconds after the first signal.

    Args:
        log: The log of the signals.
        overdue: Called in the main thread from then on, once a second, with its current frame.

    """

    def __init__(
        self, log: SignalLog, overdue: Callable[[FrameType | None], None] = lambda frame: None
    ) -> None:
        self.memberships: WeakSet[Membership] = WeakSet()
        """The nodes for which this process waits."""
        self._log = log
        self._inlet, self._outlet = socket.socketpair()
        self._outlet.setblocking(False)
        self._fd = self._outlet.fileno()
        self._previous_fd = signal.set_wakeup_fd(self._fd, warn_on_full_buffer=False)
        self.nudges = signal.getsignal(NUDGE) is signal.SIG_DFL
        if self.nudges:
            signal.signal(NUDGE, self._on_nudge)
        self._overdue = overdue
        self.dismissed = 0
        """How often signals turned out to be another handler's."""
        self._nudges_sent = 0
        self._nudge_in_vain = 0
        """The last nudge whose handler found no signal in the log."""
        os.register_at_fork(after_in_child=self._let_go)
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        """End the thread."""
        self._let_go()
        if self.nudges:
            signal.signal(NUDGE, signal.SIG_DFL)
        self._outlet.close()

    def _let_go(self) -> None:
        """Stop listening; a forked process must not wake this one up."""
        fd = signal.set_wakeup_fd(-1)
        if fd not in (-1, self._fd):  # another library's
            signal.set_wakeup_fd(fd)
        elif fd == self._fd and self._previous_fd != -1:
            signal.set_wakeup_fd(self._previous_fd)

    def _watch(self) -> None:
        count, first, nudged = 0, 0.0, False
        sent_before = 0  # nudges sent before the last signal: what they found says nothing about it
        while True:
            number = self._next(1.0 if count else None)
            if number is None:
                return
            now = time.monotonic()
            if number in STOP_SIGNALS and self._log.handles(number):
                count += 1
                sent_before = self._nudges_sent
                first = now if count == 1 else first
                if count > 2 and now - first > ECHO:
                    self._nudge()
                    time.sleep(ECHO)  # in which the main thread ends, unless it waits inside torch
                    if self._nudge_in_vain <= sent_before:
                        os._exit(128 + number)
            if count and self._nudge_in_vain > sent_before and not self._log.received:
                count, nudged = 0, False  # handled by whoever had installed a handler when it came
                self.dismissed += 1
            if count and now - first > STOP_SECONDS:
                if nudged or not self.nudges:  # the main thread waits inside torch
                    self._end_waits()
                nudged = self._nudge()

    def _nudge(self) -> bool:
        """Interrupt the main thread, if that can be done."""
        if self.nudges:
            self._nudges_sent += 1
            os.kill(os.getpid(), NUDGE)
        return self.nudges

    def _on_nudge(self, number: int, frame: FrameType | None) -> None:
        """In the main thread, where all signals that came before have been handled by now."""
        nudge = self._nudges_sent
        if self._log.received:
            self._overdue(frame)
        else:
            self._nudge_in_vain = nudge

    def _next(self, seconds: float | None) -> int | None:
        """The next signal, 0 if none has come in so many seconds; None at the end."""
        self._inlet.settimeout(seconds)
        try:
            data = self._inlet.recv(1)
        except TimeoutError:
            return 0
        return data[0] if data else None

    def _end_waits(self) -> None:
        for membership in list(self.memberships):
            membership.end_waits()
        self.memberships.clear()


@contextmanager
def logged_signals_with_deadline(membership: Membership) -> Iterator[SignalLog]:
    """Log SIGINT and SIGTERM inside the block; after one, waits for nodes end in time."""
    log = SignalLog()
    log.install(*STOP_SIGNALS)
    deadline = Deadline(log)
    deadline.memberships.add(membership)
    try:
        yield log
    finally:
        deadline.close()
        if not log.received:  # else the process is about to end, and torchrun may signal it again
            log.uninstall()
