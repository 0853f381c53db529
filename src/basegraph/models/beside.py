"""Work on a second stream of a GPU, beside what the first one does.

A product that has few tiles for the last round of multiprocessors leaves some of them idle; another
stream can use them. In a captured step the streams become branches of the graph.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

Mark = torch.cuda.Event | None
"""The end of some work; None where it is done already."""


class Beside:
    """Runs work on a second stream, or at once where there is none.

    The memory of what the work reads must not be used anew before the work is done: it is held here
    until the first stream has waited.

    Args:
        device: Where to work.
        enabled: Whether to use a second stream, if the device has streams.

    Example:
        >>> beside = Beside(torch.device("cpu"), enabled=True)
        >>> beside.run(lambda: print("at once")) is None
        at once
        True
        >>> beside.wait()

    """

    def __init__(self, device: torch.device, enabled: bool) -> None:
        self._device = device
        self._stream = _second_stream(device) if enabled and device.type == "cuda" else None
        self._held: deque[tuple[torch.cuda.Event, tuple[Tensor, ...]]] = deque()

    def run(self, work: Callable[[], object], *read: Tensor) -> Mark:
        """Do some work after all that was begun so far; returns what marks its end."""
        if self._stream is None:
            work()
            return None
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            work()
        event = self._stream.record_event()
        self._held.append((event, read))
        return event

    def wait(self, event: Mark = None) -> None:
        """Let the first stream wait for some work and all before it; None: for all."""
        while self._held:
            first, _ = self._held[0]
            torch.cuda.current_stream(self._device).wait_event(first)
            self._held.popleft()
            if first is event:
                return


@lru_cache(maxsize=8)
def _second_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
