"""Connecting to the nodes of a meeting, in a thread: one that has died is not waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from basegraph.engines.distributed.membership.gloo import gloo_group

CONNECTING = 30.0
"""Seconds for which a node waits for the others to connect, at most."""
PAUSE = 0.002
"""Seconds between two looks at whether all have connected."""


class NotConnected(Exception):
    """The nodes of a meeting have not all connected; the message says why."""


class Connector:
    """Makes the groups of a node.

    Args:
        host: The address at which this node listens.
        limit: Seconds to wait for the others, if that is less than `CONNECTING`.

    """

    def __init__(self, host: str, limit: float) -> None:
        self._host = host
        self._limit = min(limit, CONNECTING)
        self._attempts: list[threading.Thread] = []

    def alone(self) -> Any:
        """A group of this node alone."""
        return self._group("", "", 0, 1)

    def connect(
        self, store: str, prefix: str, rank: int, size: int, obstacle: Callable[[], str]
    ) -> Any:
        """A group of the nodes of a meeting.

        Args:
            store: The address of the store in which they find each other.
            prefix: Of their keys there.
            rank: Of this node.
            size: How many nodes there are.
            obstacle: Why to stop waiting; empty while there is no reason to.

        Raises:
            NotConnected: There was an obstacle, or a node did not come.

        """
        group: Future[Any] = Future()
        given_up = threading.Event()

        def make() -> None:
            try:
                group.set_result(self._group(store, prefix, rank, size, given_up.is_set))
            except BaseException as error:
                group.set_exception(error)

        attempt = threading.Thread(target=make, name="basegraph connect", daemon=True)
        self._attempts = [other for other in self._attempts if other.is_alive()] + [attempt]
        attempt.start()
        end = time.monotonic() + self._limit
        while not group.done():
            why = obstacle() or (time.monotonic() > end and "a node did not connect")
            if why:
                given_up.set()
                raise NotConnected(why)
            time.sleep(PAUSE)
        try:
            return group.result()
        except (RuntimeError, OSError) as error:
            raise NotConnected(f"a node did not connect: {error}") from None

    def close(self) -> None:
        """Wait for attempts that were given up.

        One that came back from torch while the interpreter ends would abort the process.
        """
        for attempt in self._attempts:
            attempt.join(timeout=self._limit)

    def _group(
        self,
        store: str,
        prefix: str,
        rank: int,
        size: int,
        given_up: Callable[[], bool] = lambda: False,
    ) -> Any:
        return gloo_group(store, prefix, rank, size, self._host, self._limit, given_up)
