"""Waits for other nodes that can be left.

gloo offers no way to end one wait from outside. Closing the connections ends most, but not a
message that was half sent to a node whose connection closes at that moment: that wait lasts until
its timeout. So waits are made in a thread. One that must end is left to that thread, and the next
one is made in another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from basegraph.engines.distributed.membership.contract import WaitEnded

CLOSING = 1.0
"""Seconds for a wait whose connections have just been closed."""


class LeavableWait:
    """A call that waits for other nodes, under way in a thread.

    Args:
        result: What the call returns or raises.

    """

    def __init__(self, result: Future[Any]) -> None:
        self._result = result

    def leave(self) -> None:
        """Have `result` raise `WaitEnded`, from any thread; nothing if the call has ended."""
        with suppress(InvalidStateError):
            self._result.set_exception(WaitEnded("the wait was ended"))

    def result(self) -> Any:
        """What the call returns or raises, once it has."""
        return self._result.result()


class Waiter:
    """Makes calls that wait for other nodes, one after another.

    Example:
        >>> waiter = Waiter()
        >>> waiter.begin(lambda: 2 + 2).result()
        4
        >>> stuck = threading.Event()
        >>> wait = waiter.begin(stuck.wait)
        >>> wait.leave()
        >>> wait.result()
        Traceback (most recent call last):
        ...
        basegraph.engines.distributed.membership.contract.WaitEnded: the wait was ended
        >>> waiter.renew()
        >>> waiter.begin(lambda: "another thread").result()
        'another thread'

    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Any] | None = None
        self._thread: threading.Thread | None = None

    def begin(self, call: Callable[[], object]) -> LeavableWait:
        """Make a call in the thread."""
        if self._calls is None:
            self._calls = SimpleQueue()
            self._thread = threading.Thread(
                target=_serve, args=[self._calls], name="basegraph wait", daemon=True
            )
            self._thread.start()
        result: Future[Any] = Future()
        self._calls.put((call, result))
        return LeavableWait(result)

    def renew(self) -> None:
        """Make the next call in another thread: this one has a call that was left."""
        if self._calls is not None:
            self._calls.put(None)
        self._calls = None

    def close(self) -> None:
        """End the thread, unless its call does not end."""
        self.renew()
        if self._thread is not None:
            self._thread.join(timeout=CLOSING)


def _serve(calls: SimpleQueue[Any]) -> None:
    while (item := calls.get()) is not None:
        call, result = item
        with suppress(InvalidStateError):  # the call was left meanwhile
            try:
                result.set_result(call())
            except InvalidStateError:
                raise
            except BaseException as error:
                result.set_exception(error)
        del item, call, result
