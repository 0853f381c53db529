"""Prefetching: the next epoch is prepared while the device works on this one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """prepare(epoch) in a thread, one epoch at a time.

    Example:
        >>> tables = Prefetch(lambda epoch: f"tables of epoch {epoch}")
        >>> tables.begin(3)
        >>> tables.get(3)
        'tables of epoch 3'

    """

    def __init__(self, prepare: Callable[[int], T]) -> None:
        self._prepare = prepare
        self._thread = ThreadPoolExecutor(1)
        self._next: tuple[int, Future[T]] | None = None

    def begin(self, epoch: int) -> None:
        """Prepare this epoch from now on."""
        self._next = epoch, self._thread.submit(self._prepare, epoch)

    def get(self, epoch: int) -> T:
        """What was prepared for this epoch, or is prepared now."""
        if self._next is None or self._next[0] != epoch:
            self.begin(epoch)
        assert self._next is not None
        return self._next[1].result()
