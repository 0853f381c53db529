"""Watches a node's waits from a thread: whoever is waited for may be dead, or wait elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol
from weakref import ref

SUSPICIOUS = 0.5
"""Seconds of a wait after which it is looked into."""
PAUSE = 0.25
"""Seconds between two looks."""


class Wait(NamedTuple):
    """A wait for other nodes."""

    began: float
    """By `time.monotonic`."""
    names: list[str]
    """Of the nodes."""
    end: Callable[[], None]
    """Ends it, from any thread."""

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self.began


class Owner(Protocol):
    """Whose waits these are."""

    def look_into(self, wait: Wait) -> None:
        """See whether a wait that takes long must end; called from a thread, again and again."""


class WaitWatch:
    """The waits of a node, each watched while it lasts.

    Args:
        owner: What looks into a wait that takes long. The watch ends with it.

    """

    def __init__(self, owner: Owner) -> None:
        self.current: Wait | None = None
        arguments = (ref(owner), ref(self))
        threading.Thread(target=_watch, args=arguments, name="basegraph watch", daemon=True).start()

    @contextmanager
    def over(self, names: list[str], end: Callable[[], None]) -> Iterator[None]:
        """Watch over a wait for these nodes inside the block.

        Args:
            names: Of the nodes.
            end: Ends the wait, from any thread.

        """
        outer = self.current
        self.current = Wait(time.monotonic(), names, end)
        try:
            yield
        finally:
            self.current = outer


def _watch(owner: ref[Owner], watch: ref[WaitWatch]) -> None:
    while True:
        time.sleep(PAUSE)
        watches, asks = watch(), owner()
        if watches is None or asks is None:
            return
        wait = watches.current
        if wait is not None and wait.seconds > SUSPICIOUS:
            asks.look_into(wait)
        del watches, asks, wait  # which keeps the group alive, also when the process ends
