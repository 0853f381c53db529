"""Being told to stop by SIGTERM, as torchrun tells all nodes when one has died."""

from __future__ import annotations

import signal
import time

GRACE = 5.0
"""Seconds in which a node may still find out by itself which of the others was lost."""


class Told:
    """Notes SIGTERM instead of dying of it, unless somebody else handles it already."""

    exit_code = 128 + signal.SIGTERM

    def __init__(self) -> None:
        self._since: float | None = None
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            try:
                signal.signal(signal.SIGTERM, self._note)
            except ValueError:  # not in the main thread: whoever runs us handles signals
                return

    def _note(self, number: int, frame: object) -> None:
        self._since = time.monotonic()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one is obeyed at once

    @property
    def long_ago(self) -> bool:
        """Whether it is time to obey."""
        return self._since is not None and time.monotonic() - self._since > GRACE
