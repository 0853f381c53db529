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
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist

from basegraph.engines.signals import ECHO, NUMBERS, Asked

GRACE = 10.0
"""Seconds in which a node that is asked to stop may complete what it is doing."""
NUDGE = signal.SIGURG
"""The signal by which the thread has the main thread look: by default it does nothing."""
UNUSED_TAGS = range(6900, 6904)
"""Of messages that nobody sends: gloo spreads tags over its interfaces."""


class Deadline:
    """Ends every wait for other nodes `GRACE` seconds after the first signal.

    Args:
        asked: Who notes the signals.
        overdue: Is called in the main thread from then on, once a second, with what that is doing.

    """

    def __init__(
        self, asked: Asked, overdue: Callable[[FrameType | None], None] = lambda frame: None
    ) -> None:
        self.groups: WeakSet[Any] = WeakSet()
        """The process groups in which this process waits."""
        self._asked = asked
        self._inlet, self._outlet = socket.socketpair()
        self._outlet.setblocking(False)
        self._fd = self._outlet.fileno()
        self._fd_before = signal.set_wakeup_fd(self._fd, warn_on_full_buffer=False)
        self.nudges = signal.getsignal(NUDGE) is signal.SIG_DFL
        if self.nudges:
            signal.signal(NUDGE, lambda number, frame: overdue(frame))
        os.register_at_fork(after_in_child=self._let_go)
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        """End the thread."""
        self._let_go()
        if self.nudges:
            signal.signal(NUDGE, signal.SIG_DFL)
        self._outlet.close()

    def _let_go(self) -> None:
        """Hear of no more signals; of those of a forked process, this one must not."""
        fd = signal.set_wakeup_fd(-1)
        if fd not in (-1, self._fd):  # somebody else's
            signal.set_wakeup_fd(fd)
        elif fd == self._fd and self._fd_before != -1:
            signal.set_wakeup_fd(self._fd_before)

    def _watch(self) -> None:
        count, first = 0, 0.0
        while True:
            number = self._next(1.0 if count else None)
            if number is None:
                return
            now = time.monotonic()
            if number in NUMBERS and self._asked.heeds(number):
                count += 1
                first = now if count == 1 else first
                if count > 2 and now - first > ECHO:
                    time.sleep(ECHO)  # in which the main thread obeys, unless it waits in torch
                    os._exit(128 + number)
            if count and now - first > GRACE:
                self._end_waits()
                if self.nudges:
                    os.kill(os.getpid(), NUDGE)

    def _next(self, seconds: float | None) -> int | None:
        """The next signal, 0 if none has come in so many seconds; None at the end."""
        self._inlet.settimeout(seconds)
        try:
            data = self._inlet.recv(1)
        except TimeoutError:
            return 0
        return data[0] if data else None

    def _end_waits(self) -> None:
        """Wait for messages that nobody sends: with one that times out, gloo ends all others."""
        for group in list(self.groups):
            others = [r for r in dist.get_process_group_ranks(group) if r != dist.get_rank()]
            for tag in UNUSED_TAGS:
                with suppress(RuntimeError):  # which is the aim
                    message = dist.irecv(torch.empty(1), others[0], group, tag)
                    if message is not None:
                        message.wait(timedelta(milliseconds=1))
        self.groups.clear()


@contextmanager
def told_in_time() -> Iterator[Asked]:
    """Signals that ask to stop, noted; then no node is waited for longer than the deadline."""
    asked = Asked()
    asked.heed(*NUMBERS)
    deadline = Deadline(asked)
    deadline.groups.add(dist.group.WORLD)
    try:
        yield asked
    finally:
        deadline.close()
        if not asked.told:  # else the process is about to end, and torchrun may ask it again
            asked.restore()
