"""`Gossip`: any torch optimizer, and an exchange with the neighbours after its steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from basegraph.algorithms.stability import communicates
from basegraph.errors import InvalidArgument
from basegraph.optim.node import Node, NodeOptimizer, parameters_of
from basegraph.topology.sequence import Topology


class Gossip(NodeOptimizer):
    """Any torch optimizer, and gossip of the parameters after each of its steps.

    The optimizer's own state (AdamW's moments, say) stays at home. With a folder as `checkpoint`, a
    node that loses a neighbour saves its model there (after the optimizer's step, before the
    exchange), and nodes that find such files, however many, begin from the survivors' average.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        topology: str | Topology = "base:k=1",
        *,
        local_steps: int = 1,
        order: str = "adapt-then-combine",
        group: Any = None,
        timeout: float = 300.0,
        wire: torch.dtype | None = None,
        refuse_nonfinite: bool = False,
        checkpoint: str | Path | None = None,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise InvalidArgument("optimizer", optimizer, "must be a torch.optim.Optimizer")
        self.optimizer = optimizer
        super().__init__(parameters_of(optimizer), {})
        self.param_groups = optimizer.param_groups
        self._node = Node(
            parameters_of(optimizer),
            topology,
            group,
            local_steps=local_steps,
            order=order,
            timeout=timeout,
            wire=wire,
            refuse_nonfinite=refuse_nonfinite,
            checkpoint=checkpoint,
        )
        self.gossip_step = self._node.same_everywhere(
            {"optimizer": type(optimizer).__name__, "local_steps": local_steps, "order": order}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """The optimizer's step, then an exchange."""
        with self._node.rescued(self.gossip_step):
            loss = self._step(closure, self.gossip_step)
        self.gossip_step += 1
        return loss

    def _step(self, closure: Callable[[], Any] | None, step: int) -> Any:
        node = self._node
        if node.order == "combine-then-adapt":
            before = node.x_d.clone()
            node.combine(step)
            drift = node.x_d - before  # what the neighbours add; the optimizer steps from x itself
            node.x_d.copy_(before)
            loss = self._adapt(closure)
            node.x_d.add_(drift)
            node.begin_early(step + 1)
        else:
            loss = self._adapt(closure)
            if communicates(step, node.local_steps):
                node.mix(node.x_d, node.x_d, step)
        return loss

    def _adapt(self, closure: Callable[[], Any] | None) -> Any:
        """The optimizer's own step, left out where a GradScaler has found an overflow."""
        scale = getattr(self, "grad_scale", None)
        if self._overflowed():
            return None
        if scale is not None:
            for p in self._node.parameters:
                if p.grad is not None:
                    p.grad.div_(scale)
        return self.optimizer.step() if closure is None else self.optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, and which gossip step comes next."""
        return {"optimizer": self.optimizer.state_dict(), "gossip_step": self.gossip_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a state_dict was taken, in the right round."""
        self._node.give_up_exchange()
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.param_groups = self.optimizer.param_groups
        self.gossip_step = state_dict["gossip_step"]
