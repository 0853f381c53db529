"""Losses of steps that stacked nodes have made, until they are asked for.

Shape legend: N nodes of all runs together, n of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from basegraph.engines.stacked.nodes import StackedNodes

PENDING = 50
"""Steps whose losses may stay on a GPU, so as not to wait for it."""


class PendingLosses:
    """The losses (N,) of each step since they were last taken; they stay on the device.

    Args:
        nodes: Whose losses they are.

    """

    def __init__(self, nodes: StackedNodes) -> None:
        self._nodes = nodes
        self._losses: list[Tensor] = []

    def extend(self, losses: Iterable[Tensor]) -> None:
        """Add the losses of further steps."""
        self._losses.extend(losses)

    def due(self, signals: Sequence[int], elsewhere: int = 0) -> bool:
        """Whether to take them now: enough steps are pending, or a signal asks to stop.

        Args:
            signals: The signals that this process has seen.
            elsewhere: Steps made whose losses have not been added yet.

        """
        most = 1 if self._nodes.device.type == "cpu" else PENDING
        return bool(signals) or len(self._losses) + elsewhere >= most

    def take(self) -> list[Tensor]:
        """The losses (steps, n) of each run in main memory; none is pending then."""
        pending, self._losses = self._losses, []
        count = len(self._nodes.x_nd)
        losses = torch.stack(pending).cpu() if pending else torch.empty(0, count)
        return list(torch.split(losses, self._nodes.n, dim=1))


def signals_of_one_process(seen: Sequence[int]) -> list[int]:
    """The signals that were seen: there is no other process to agree with."""
    return list(seen)
