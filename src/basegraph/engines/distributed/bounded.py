"""Waiting for at most so long, also for calls that know no timeout, and ending waits early."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch

T = TypeVar("T")
UNUSED_TAGS = range(6900, 6904)
"""Tags of messages that are never sent; several, as gloo spreads tags over its interfaces."""


def end_gloo_waits(group: Any, rank: int, size: int) -> None:
    """End all waits in a process group from another thread, and its connections with them.

    Waits for messages that are never sent: with one that times out, gloo ends all others. From a
    rank whose connection is closed already nothing can be waited for, so all are tried.

    Args:
        group: The process group.
        rank: Of this process.
        size: How many ranks there are.

    """
    for peer in range(size):
        for tag in UNUSED_TAGS if peer != rank else ():
            with suppress(RuntimeError):  # which is the aim
                message = group.recv([torch.empty(1)], peer, tag)
                if message is not None:
                    message.wait(timedelta(milliseconds=1))


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
