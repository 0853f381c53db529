"""Uneven numbers of batches: nodes without data go on taking part in the exchanges.

`torch.distributed.algorithms.Join` asks all nodes at every step whether anybody still has data,
with one small all-reduce; this says what a node does that has none.
"""

from __future__ import annotations

from collections.abc import Callable

from torch.distributed.algorithms.join import JoinHook


class TakePart(JoinHook):
    """Take part in a step of the others without data of one's own."""

    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step

    def main_hook(self) -> None:
        """One step of the others."""
        self._step()
