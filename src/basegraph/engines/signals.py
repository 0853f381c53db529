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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import current_process
from types import FrameType
from typing import Any

PACKAGE = __name__.partition(".")[0]
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


def inside_package(frame: FrameType | None) -> bool:
    """Whether a frame is of this package, or was called from it."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
            return True
        frame = frame.f_back
    return False


def guard_steps() -> None:
    """Keep torch's handler of SIGCHLD from raising inside this package.

    It raises an error wherever the main thread is when a worker of a DataLoader ends, which would
    leave a step half made. The loader itself notices at its next batch.
    """
    raise_error = _handler_of_loaders("torch.utils.data.")
    if raise_error is None:
        return

    def outside_steps(number: int, frame: FrameType | None) -> None:
        if not inside_package(frame):
            raise_error(number, frame)

    with suppress(ValueError):  # not in the main thread, where signals are handled
        signal.signal(signal.SIGCHLD, outside_steps)


def _let_workers_end() -> None:
    """Have it no longer raise at all: the signal that asks to stop has ended the workers, too."""
    if _handler_of_loaders("torch.utils.data.", __name__) is not None:
        signal.signal(signal.SIGCHLD, _ignore)


def _handler_of_loaders(*modules: str) -> Callable[[int, FrameType | None], Any] | None:
    """The handler of SIGCHLD, if it was made in one of these modules."""
    number = getattr(signal, "SIGCHLD", None)
    handler = None if number is None else signal.getsignal(number)
    if not callable(handler) or handler is _ignore:
        return None
    return handler if str(getattr(handler, "__module__", "")).startswith(modules) else None


def _ignore(number: int, frame: FrameType | None) -> None:
    """Handle a signal by doing nothing, which `signal.SIG_IGN` is not: that reaps children."""


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
