"""Signals that ask a process to stop: logged, so that the step under way can be completed.

A scheduler signals every process of a job, and torchrun, which is signaled too, signals its
processes once more: the same request arrives twice. So the first two signals are one request, which
the training loop obeys at its next step; the third takes effect at once, unless it arrives together
with the others.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import current_process
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What Ctrl-C sends, and what schedulers and torchrun send."""
ECHO = 1.0
"""Seconds within which all signals belong to one request, however many there are."""


class SignalLog:
    """A signal handler that logs signals.

    In forked processes they take effect as usual, except that Ctrl-C does not end the workers of a
    DataLoader: they are needed for the step under way, and end with this process.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        """The signals so far, in their order."""
        self.first_at: float | None = None
        """When the first one arrived, by `time.monotonic`."""
        self._previous: dict[int, Any] = {}
        self._process = 0

    def install(self, *numbers: int) -> None:
        """Handle these signals from now on; does nothing outside of the main thread."""
        self._process = os.getpid()
        for number in numbers:
            try:
                self._previous[number] = signal.signal(number, self.handle)
            except ValueError:  # not in the main thread: signals are handled there
                return

    def handles(self, number: int) -> bool:
        """Whether the handler of this signal is still this one."""
        return signal.getsignal(number) == self.handle

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Log a signal; the third and later ones take effect, unless they follow at once."""
        if os.getpid() != self._process and number == signal.SIGINT and current_process().daemon:
            return
        now = time.monotonic()
        self.first_at = now if self.first_at is None else self.first_at
        self.received.append(number)
        if os.getpid() != self._process or (len(self.received) > 2 and now - self.first_at > ECHO):
            signal.signal(number, self._previous[number])
            signal.raise_signal(number)
        elif len(self.received) == 1:
            _let_workers_end()

    def uninstall(self) -> None:
        """Install the handlers that were there before."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)


def _let_workers_end() -> None:
    """Have torch's handler no longer raise an error when a worker of a DataLoader ends.

    The signal that asks this process to stop ends its workers, too. The error would come in the
    middle of the step under way; the loader itself notices at its next batch.
    """
    number = getattr(signal, "SIGCHLD", None)
    handler = None if number is None else signal.getsignal(number)
    if number and str(getattr(handler, "__module__", "")).startswith("torch.utils.data."):
        signal.signal(number, lambda number, frame: None)


@contextmanager
def logged_signals() -> Iterator[SignalLog]:
    """Log SIGINT and SIGTERM inside the block, instead of ending the process.

    Example:
        >>> with logged_signals() as log:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     log.received == [signal.SIGTERM]
        True

    """
    log = SignalLog()
    log.install(*STOP_SIGNALS)
    try:
        yield log
    finally:
        log.uninstall()
