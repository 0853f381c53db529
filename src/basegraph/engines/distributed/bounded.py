"""Waiting for at most so long, also for calls that know no timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """What the call returns or raises; TimeoutError if it has done neither after so many seconds.

    The call runs in a thread of its own. One that never returns (a request to a store whose process
    is stopped, say) keeps that thread, which does not keep the process from ending. Signal handlers
    run during the wait, which they do not during a call into torch.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result(timeout=seconds)
