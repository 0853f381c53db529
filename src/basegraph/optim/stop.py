"""Being asked to stop: by SIGTERM, as torchrun does when a node has died, or by torchrun's end."""

from __future__ import annotations

import signal
import time

from basegraph.mixing.torchrun import orphaned

GRACE = 5.0
"""Seconds in which a node may still find out by itself which of the others was lost."""


class StopRequest:
    """Whether to stop, asked before every step.

    With `sigterm`, SIGTERM is noted instead of obeyed at once, unless somebody else handles it.
    """

    enabled = True
    """Off where whoever makes the steps looks after their end."""

    def __init__(self, *, sigterm: bool) -> None:
        self._since: float | None = None
        if sigterm and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            try:
                signal.signal(signal.SIGTERM, self._note)
            except ValueError:  # not in the main thread: whoever runs us handles signals
                return

    def _note(self, number: int, frame: object) -> None:
        self._since = time.monotonic()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one is obeyed at once

    @property
    def reason(self) -> str | None:
        """What this node is stopped by, or None as long as it is not."""
        if self._since is not None and time.monotonic() - self._since > GRACE:
            return signal.SIGTERM.name
        return "the end of torchrun" if self.enabled and orphaned() else None

    @property
    def exit_code(self) -> int:
        """What a stopped process leaves with."""
        return 1 if self._since is None else 128 + signal.SIGTERM
