"""Steps and averages that are made again with the nodes that are left, when some are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from basegraph.engines.distributed import collectives
from basegraph.engines.distributed.node import Node
from basegraph.engines.distributed.turnover import Portable, Turnover
from basegraph.errors import PeerLost
from basegraph.optim.averaging import AVERAGED, NOTHING, Averaging
from basegraph.topologies.analysis.network import Network

T = TypeVar("T")


class Retries:
    """Makes the steps and averages of a node, again and again until no node is lost in them.

    Args:
        trained: What is trained.
        node: The node it is trained on.
        made: Told the number of steps made, after each.

    """

    turnover: Turnover | None = None
    """What is done when nodes join and leave; None where a lost node ends the others."""

    def __init__(self, trained: Portable, node: Node, made: Callable[[int], None]) -> None:
        self._trained = trained
        self._node = node
        self._made = made
        self._taking: Averaging | None = None  # the average that this node is taking
        self._asked: Averaging | None = None  # the one that others are taking, after a meeting

    def average(self, phase: str, how: str, network: Network | None) -> bool:
        """Average all models, or those of the nodes that are left.

        "auto" is decided anew when nodes are lost, for the number of those that are left.

        Returns:
            Whether this node's model was replaced before.

        """
        replaced = False
        self._taking = Averaging(phase, how, network)
        try:
            while True:
                try:
                    self._node.average_models(phase, self._trained.gossip_step, how, network)
                except PeerLost as error:
                    if self.turnover is None:
                        raise
                    replaced |= self.turnover.recover(error)
                else:
                    return replaced
        finally:
            self._taking = self._asked = None

    def step(self, work: Callable[[int], T]) -> T | None:
        """Make a step, with those that are left if nodes are lost in it.

        Args:
            work: Makes the step with this number, or raises `PeerLost` when nothing has moved.

        Returns:
            What the work returns; None if the step is void, because the model was replaced, nodes
            have joined, or the others were further: all then go on at the top of their loop.

        """
        while True:
            number = self._trained.gossip_step
            try:
                result = work(number)
            except PeerLost as error:
                if self.turnover is None:
                    raise
                if self._is_void(number, self.turnover, error):
                    return None
                if self._take_part_again(number, self.turnover):
                    return None
            else:
                self._made(number + 1)
                if self.turnover is not None:
                    self.turnover.after_step()
                return result

    def settle(self, step: int) -> int:
        """Tell the nodes of a meeting which average this one is taking, and hear about theirs.

        A node may have been lost when some had an average and others did not: those that had it
        take part once more, before they go on.

        Args:
            step: The largest step of the nodes that keep their models.

        Returns:
            The step at which all go on.

        """
        mine = NOTHING if self._taking is None else self._taking.numbers()
        row = torch.tensor(mine, dtype=torch.float64)
        said = collectives.all_gather(row, self._node.membership, "settling")
        asked = [row.tolist() for row in said if row[0] >= 0]
        self._asked = Averaging.of(asked[0]) if asked else None
        return step

    def _is_void(self, step: int, turnover: Turnover, error: PeerLost) -> bool:
        """Go on with the nodes that are left; whether the step in which one was lost is void."""
        return turnover.recover(error) or turnover.joined or self._trained.gossip_step > step

    def _take_part_again(self, step: int, turnover: Turnover) -> bool:
        """Take part in an average that this node has, and others had not when a node was lost.

        Returns:
            Whether the step is void.

        """
        node = self._node
        while self._asked is not None:
            (phase, how, network), self._asked = self._asked, None
            own = node.x_d.clone()
            buffers = None if node.buffers is None else node.buffers.gather()
            try:
                node.average_models(phase, step, how, network)
            except PeerLost as error:
                if self._is_void(step, turnover, error):
                    return True
                continue
            if phase == AVERAGED:  # the others show it; consensus() keeps it everywhere
                node.set_model(own)
                node.put_buffers(buffers)
        return False
