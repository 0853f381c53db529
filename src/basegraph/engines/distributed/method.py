"""One node's part of a method: its x and its state, moved step by step.

Shape legend: x_d and the parts of a state (d,) of one node.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.algorithms.method import Method, at_x
from basegraph.engines.distributed.blocks import Block
from basegraph.engines.distributed.memory import copy_of
from basegraph.engines.distributed.node import Node
from basegraph.engines.distributed.options import NodeOptions
from basegraph.engines.distributed.split_step import SplitStep
from basegraph.engines.vectors import by_name
from basegraph.errors import InvalidArgument


def require_order(method: Method, options: NodeOptions) -> None:
    """Refuse an order of step and exchange that a method does not have."""
    if options.overlapped and not method.either_order:
        *others, last = (name for name in ALGORITHMS if ALGORITHMS[name]().either_order)
        asked = method.spec or method.name
        raise InvalidArgument(
            "order", options.order, f"is for {', '.join(others)} and {last}, not {asked}"
        )


class NodeMethod:
    """A method on one node.

    Args:
        method: The method. Blocks of a step may have it with other options.
        node: The node. Its model is where gradients are taken.
        step: Steps that were made before; some methods start differently then.

    """

    def __init__(self, method: Method, node: Node, step: int = 0) -> None:
        self.method = method
        self.node = node
        x_d = node.x_d
        moves_elsewhere = method.gradient_point is not at_x
        self.x_d = copy_of(x_d) if moves_elsewhere else x_d
        """What the method moves; for push-sum that is not the model."""
        state = method.state(x_d, step)
        self.state = type(state)(*(copy_of(part) for part in state))
        self._split = SplitStep(method)

    @torch.no_grad()
    def step(self, step: int, blocks: list[Block]) -> None:
        """Make one step with the neighbors; if one is lost, nothing has moved.

        Args:
            step: Steps made so far.
            blocks: All parameters with their gradients and options.

        """
        node = self.node
        with node.one_step(step):
            buffers = node.mixed_buffers(step)
            if node.options.overlapped:
                drift = node.exchanges.drift(step)
                blocks = [self._decayed(block) for block in blocks]
                node.exchanges.move(node.x_d, drift)
                exchange = None
            else:
                exchange = node.exchanges.at(step, average=self.method.centralized)
            self._follow_model()
            if step == 0:  # the model may have been loaded since this was built
                self._begin()
            rule = node.exchanges.pair_rule(step)
            self.state = self._split(self.x_d, self.state, blocks, exchange, rule)
            node.put_buffers(buffers)
            self._show_model()

    def vectors(self) -> dict[str, Tensor]:
        """x and the method's state, by the names they have in the checkpoint of a run."""
        return by_name(self.x_d, self.state)

    def own_vectors(self) -> dict[str, Tensor]:
        """The vectors that the method has besides the model, by name."""
        state: dict[str, Tensor] = self.state._asdict()
        return state if self.x_d is self.node.x_d else {"x": self.x_d, **state}

    def own_vectors_from_here(self, step: int) -> dict[str, Tensor]:
        """What to continue with on all nodes, if all of them have the model that is here now.

        Args:
            step: Steps made so far.

        Returns:
            As `own_vectors`: a state that is valid on any node is this one's, another begins anew.

        """
        x_d = self.node.x_d.clone()
        if not self.method.keeps_state:
            state: dict[str, Tensor] = self.method.state(x_d, step)._asdict()
        else:
            state = self.state._asdict()
            if self.method.outer is not None:
                state["anchor"] = x_d
            if self.method.vectors == 2:
                state[self.state._fields[0]] = x_d
        return state if self.x_d is self.node.x_d else {"x": x_d, **state}

    @torch.no_grad()
    def restore(self, vectors: Mapping[str, Tensor]) -> None:
        """Continue from what `vectors` returned."""
        self.node.exchanges.reset()
        for name, vector in self.vectors().items():
            vector.copy_(vectors[name])
        self._show_model()

    @torch.no_grad()
    def restart(self, x_d: Tensor, step: int) -> None:
        """Continue from a model alone, with a fresh state, after so many steps."""
        self.restore(by_name(x_d, self.method.state(x_d, step)))

    def _begin(self) -> None:
        """Let the state be that of a run which begins at x as it is now."""
        for part, fresh in zip(self.state, self.method.init(self.x_d), strict=True):
            part.copy_(fresh)

    def _show_model(self) -> None:
        """Set the model to where the next gradient is taken."""
        if self.x_d is not self.node.x_d:
            self.node.x_d.copy_(self.method.gradient_point(self.x_d, self.state))

    def _follow_model(self) -> None:
        """Apply to x what was done to the model since (it was loaded, or averaged), if they differ.

        For push-sum, that is: x is the model elsewhere.
        """
        if self.x_d is not self.node.x_d:
            self.x_d += self.node.x_d - self.method.gradient_point(self.x_d, self.state)

    def _decayed(self, block: Block) -> Block:
        """The block with weight decay, that of x before it is combined, made or in its gradient."""
        if not block.decay:
            return block
        x = self.node.x_d[block.where]
        if block.method.decoupled_decay:
            x.mul_(1 - block.lr * block.decay)
            return block._replace(decay=0.0)
        return block._replace(grad=block.grad + block.decay * x, decay=0.0)
