"""Signals that ask a process to stop: noted, so that what is under way is brought to an end.

A scheduler signals every process of a job, and torchrun, which is told too, signals its processes
once more: the same request comes twice. So the first two signals are one request, which whoever
trains honors; the third is obeyed at once, unless it comes with the others.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NUMBERS = (signal.SIGINT, signal.SIGTERM)
"""What Ctrl-C sends, and what schedulers and torchrun send."""
ECHO = 1.0
"""Seconds in which all signals belong to one request, however many they are."""


class Asked:
    """The signals that have asked this process to stop; forked processes obey them as usual."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.since: float | None = None
        """When the first one came, by `time.monotonic`."""
        self._before: dict[int, Any] = {}
        self._process = 0

    def heed(self, *numbers: int) -> None:
        """Note these signals from now on; only the main thread can do so, others do nothing."""
        self._process = os.getpid()
        for number in numbers:
            try:
                self._before[number] = signal.signal(number, self.note)
            except ValueError:  # not in the main thread: whoever runs us handles signals
                return

    def heeds(self, number: int) -> bool:
        """Whether the signal is noted; somebody else may handle it."""
        return signal.getsignal(number) == self.note

    def note(self, number: int, frame: FrameType | None) -> None:
        """Remember a signal, or obey it if it is the third and comes later than the others."""
        now = time.monotonic()
        self.since = now if self.since is None else self.since
        self.told.append(number)
        if os.getpid() != self._process or (len(self.told) > 2 and now - self.since > ECHO):
            signal.signal(number, self._before[number])
            signal.raise_signal(number)

    def restore(self) -> None:
        """Give the signals back to whoever handled them before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextmanager
def told_to_stop() -> Iterator[Asked]:
    """Signals that ask to stop, noted inside of this instead of obeyed at once."""
    asked = Asked()
    asked.heed(*NUMBERS)
    try:
        yield asked
    finally:
        asked.restore()
