"""The outer optimizer of a node whose local steps are made by a torch optimizer.

Shape legend: x_d the model of this node; the anchor and the parts of a state (d,) each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from basegraph.algorithms.method import Method
from basegraph.engines.distributed.blocks import GradientPart, Options, in_blocks
from basegraph.engines.distributed.memory import copy_of, empty_like
from basegraph.engines.distributed.node import Node
from basegraph.engines.distributed.split_step import SplitStep
from basegraph.engines.vectors import by_name
from basegraph.errors import InvalidArgument


class OuterStep:
    """Steps of a method from an anchor, along what came of the local steps: Δ = anchor - x.

    Args:
        method: The outer method; its step is the only one that communicates.
        lr: Its learning rate.
        node: The node, whose model the local steps move.

    """

    def __init__(self, method: Method, lr: float, node: Node) -> None:
        self.method = method
        self.lr = lr
        self._node = node
        self._split = SplitStep(method)
        self._anchor: Tensor | None = None  # of the first step: a model may be loaded before it
        self._state: Any = None
        self._way: Tensor | None = None
        self._begun = False

    @torch.no_grad()
    def begin(self, step: int) -> None:
        """Before a step: the first one's model is the anchor.

        Args:
            step: Steps made so far.

        """
        if self._anchor is None or not self._begun:
            self._set(self._node.x_d, self.method.state(self._node.x_d, step))

    @torch.no_grad()
    def prepare(self) -> None:
        """Have vectors to load into, before the first step; that step begins where the model is."""
        if self._anchor is None:
            self._set(self._node.x_d, self.method.init(self._node.x_d))
            self._begun = False

    @torch.no_grad()
    def step(self, step: int) -> None:
        """After a local step: the outer step, if nodes communicate now, which the model follows.

        If a neighbor is lost, nothing has moved.

        Args:
            step: Steps made before the local one.

        """
        node, anchor = self._node, self._anchor
        exchange = node.exchanges.at(step, average=self.method.centralized)
        if exchange is None or anchor is None:
            return
        if self._way is None:
            self._way = empty_like(anchor)
        torch.sub(self.method.gradient_point(anchor, self._state), node.x_d, out=self._way)
        part = GradientPart(0, self._way, Options(self.lr, 0.0, self.method))
        self._state = self._split(anchor, self._state, in_blocks([part]), exchange)
        node.x_d.copy_(self.method.gradient_point(anchor, self._state))

    @torch.no_grad()
    def restart_here(self) -> None:
        """Let the model as it is be the anchor: all that came of the local steps is averaged."""
        if self._anchor is not None:
            self._anchor.copy_(self._node.x_d)

    @torch.no_grad()
    def begin_anew(self, step: int) -> None:
        """Begin the outer method's state anew at the anchor, after so many steps made before."""
        if self._anchor is not None:
            self._set(self._anchor, self.method.state(self._anchor, step))

    def vectors(self) -> dict[str, Tensor]:
        """The anchor and the outer method's state, by name; none before the first step."""
        return {} if self._anchor is None else by_name(self._anchor, self._state)

    def fresh(self) -> dict[str, Tensor]:
        """What `vectors` returns at the beginning of the first step, in memory of its own."""
        x_d = self._node.x_d
        return {name: v.clone() for name, v in by_name(x_d, self.method.init(x_d)).items()}

    def vectors_from_here(self, step: int) -> dict[str, Tensor]:
        """What to continue from on all nodes, if all of them have the model that is here now.

        Args:
            step: Steps made so far.

        """
        if self._anchor is None:
            return {}
        x_d = self._node.x_d.clone()
        keeps = self.method.keeps_state
        return by_name(x_d, self._state if keeps else self.method.state(x_d, step))

    def load(self, vectors: Mapping[str, Tensor]) -> None:
        """Continue from what `vectors` has returned.

        Raises:
            InvalidArgument: They are of another method or model.

        """
        if not vectors:
            self._anchor = None
            return
        x_d = self._node.x_d
        state = self.method.init(x_d)
        like = by_name(x_d, state)
        if {n: v.shape for n, v in like.items()} != {n: v.shape for n, v in vectors.items()}:
            raise InvalidArgument(
                "state_dict", sorted(vectors), f"must be an outer state of {self.method.name}"
            )
        moved = [vectors[name].to(x_d) for name in like]
        self._set(moved[0], type(state)(*moved[1:]))

    def _set(self, anchor: Tensor, state: Any) -> None:
        self._begun = True
        self._anchor = copy_of(anchor)
        self._state = type(state)(*(copy_of(part) for part in state))
        self._split = SplitStep(self.method)
