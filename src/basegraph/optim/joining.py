"""Uneven numbers of batches: nodes without data go on taking part in the exchanges.

`torch.distributed.algorithms.Join` asks all nodes at every step whether anybody still has data,
with one small all-reduce. Here is what a node without data does, and a lost node is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.algorithms.join import Join, Joinable, JoinHook, _JoinConfig

from basegraph.engines.distributed import collectives
from basegraph.engines.distributed.membership.contract import Membership

PHASE = "join()"
"""What messages about lost nodes call this all-reduce."""


class TakePart(JoinHook):
    """Take part in a step of the others without data of one's own."""

    def __init__(self, joinable: Joinable, step: Callable[[], object]) -> None:
        self._joinable = joinable
        self._step = step

    def main_hook(self) -> None:
        """Make one step of the others."""
        self._step()

    def post_hook(self, is_last_joiner: bool) -> None:
        """End joining: torch itself would leave the joinable joining for good."""
        joining_is_over(self._joinable)


def joining_is_over(joinable: Joinable) -> None:
    """Let later steps make no all-reduce about data."""
    joinable._join_config = _JoinConfig(False, False, False)


class UnevenData(Join):
    """`Join`, in which every wait has a node's timeout, and which ends with exceptions, too."""

    def __init__(self, joinable: Joinable, membership: Membership) -> None:
        super().__init__([joinable])
        self._membership = membership

    def __exit__(self, *raised: Any) -> None:
        try:
            super().__exit__(*raised)
        finally:
            for joinable in self._joinables:
                joining_is_over(joinable)

    def _get_num_nonjoined_procs(self) -> float:
        count = torch.zeros(1, device=self._device)
        collectives.all_reduce(count, self._membership, PHASE, routine=True)
        return count.item()


def tell_of_data(joinable: Joinable, membership: Membership) -> None:
    """Inside a join context, before a step: tell the others that this node still has data."""
    config = joinable._join_config
    if config.throw_on_early_termination:
        Join.notify_join_context(joinable)
    elif config.enable and config.is_first_joinable:
        one = torch.ones(1, device=joinable.join_device)
        collectives.all_reduce(one, membership, PHASE, routine=True)
