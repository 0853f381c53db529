"""Preparing the next epoch while the device works on this one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """prepare(epoch), of which the next is always under way; asked for one epoch after another."""

    def __init__(self, prepare: Callable[[int], T], epochs: int) -> None:
        self._prepare = prepare
        self._epochs = epochs
        self._thread = ThreadPoolExecutor(1)
        self._next: tuple[int, Future[T]] | None = None

    def get(self, epoch: int) -> T:
        """What was prepared for this epoch."""
        if self._next is None or self._next[0] != epoch:
            self._next = epoch, self._thread.submit(self._prepare, epoch)
        found = self._next[1].result()
        if epoch + 1 < self._epochs:
            self._next = epoch + 1, self._thread.submit(self._prepare, epoch + 1)
        return found
