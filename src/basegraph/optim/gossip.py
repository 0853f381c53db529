"""`Gossip`: any torch optimizer, and an exchange with the neighbors after its steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.join import Joinable

from basegraph.engines.distributed.membership.fixed import join_nodes
from basegraph.engines.distributed.node import Node
from basegraph.engines.distributed.options import NodeOptions
from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.optim.joining import tell_of_data
from basegraph.optim.node_optimizer import (
    NodeOptimizer,
    parameters_of,
    topology_for,
)
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.sequence import refuse_two_states


class Gossip(NodeOptimizer):
    """Any torch optimizer, and gossip of the parameters after each of its steps.

    The optimizer's own state (AdamW's moments, say) stays local. A node whose gradients overflow
    under a GradScaler takes part in the exchange without a step of its own.

    Args:
        optimizer: Any torch optimizer. Its parameter groups are this optimizer's too.
        topology: A catalogue name, built for the number of nodes, or a topology.
        model: The module that is trained. Its buffers (BatchNorm's running statistics) and frozen
            parameters then start as node 0's, and buffers are averaged in `consensus()` and
            `averaged()`.
        buffers: "local", or "average": buffers are mixed at every step, as parameters are.
        broadcast: Whether all nodes start from node 0's model; `load_state_dict` restores the model
            that a node had before. If False, the nodes' models must be equal at the first step.
        local_steps: Steps per exchange.
        order: "adapt-then-combine", or "combine-then-adapt": the exchange runs behind the next
            forward and backward pass.
        group: The process group whose ranks are the nodes; all processes if None.
        timeout: Seconds after which a neighbor counts as lost.
        wire: The type of what is sent, such as torch.bfloat16; the parameters' if None.
        refuse_nonfinite: Refuse NaN and infinity, from neighbors and in what this node sends.
        checkpoint: A folder. A node that loses a neighbor saves its model there (after the
            optimizer's step, before the exchange), and nodes that find such files, however many,
            begin from the survivors' average.
        checkpoint_every: Save there at every so many steps, too, in case all nodes are lost at
            once; 0 for never.

    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        topology: str | Topology = "base:k=1",
        *,
        model: nn.Module | None = None,
        buffers: str = "local",
        broadcast: bool = True,
        local_steps: int = 1,
        order: str = "adapt-then-combine",
        group: Any = None,
        timeout: float = 300.0,
        wire: torch.dtype | None = None,
        refuse_nonfinite: bool = True,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 0,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise InvalidArgument("optimizer", optimizer, "must be a torch.optim.Optimizer")
        if isinstance(optimizer, NodeOptimizer):
            name = type(optimizer).__name__
            raise InvalidArgument("optimizer", name, "exchanges with its neighbors already")
        node_options = NodeOptions(
            model=model,
            buffers=buffers,
            broadcast=broadcast,
            local_steps=local_steps,
            order=order,
            timeout=timeout,
            wire=wire,
            refuse_nonfinite=refuse_nonfinite,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
        )
        membership = join_nodes(group, node_options.timeout)
        t = topology_for(topology, membership)
        refuse_two_states(
            "topology",
            t,
            "Gossip mixes one: use short:k=1, or DecentralizedOptimizer with dsgdm-ceca",
        )
        Joinable.__init__(self)
        super().__init__(parameters_of(optimizer), {})
        self.optimizer = optimizer
        self.defaults = optimizer.defaults
        self._node = Node(
            parameters_of(optimizer),
            t,
            membership,
            node_options,
        )
        self._gossip_step = self._node.start(
            {
                "optimizer": type(optimizer).__name__,
                "param_names": [group.get("param_names") for group in optimizer.param_groups],
            }
        )
        self._listen_for_signals()

    @property
    def gossip_step(self) -> int:
        """Steps made so far; after a fault it goes on where the survivors stopped."""
        return self._gossip_step

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The wrapped optimizer's parameter groups."""
        groups: list[dict[str, Any]]
        groups = self.optimizer.param_groups if hasattr(self, "optimizer") else self._own_groups
        return groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self._own_groups = groups  # torch's constructor begins with none

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make the optimizer's step, then an exchange with the neighbors.

        Args:
            closure: Computes the gradients, and returns the loss.

        Returns:
            What the optimizer's own step returns.

        Raises:
            PeerLost: A neighbor did not answer. The optimizer's step is made, the exchange is not;
                this node is saved if there is a folder for checkpoints.

        """
        tell_of_data(self, self.membership)
        return self._step(lambda: self._adapt(closure))

    def _step_without_data(self) -> None:
        self._step(lambda: None)

    @torch.no_grad()
    def _step(self, adapt: Callable[[], Any]) -> Any:
        step = self.gossip_step
        self._require_own_model()
        self._require_same_groups()
        with self._node.one_step(step):
            loss = self._adapt_and_combine(adapt, step)
            self._gossip_step += 1
        return loss

    def _adapt_and_combine(self, adapt: Callable[[], Any], step: int) -> Any:
        node = self._node
        drift = node.drift(step) if node.options.overlapped else None
        loss = adapt()
        node.check_parameters()  # an optimizer may assign p.data
        buffers = node.mixed_buffers(step)  # which a closure has updated
        exchange = None if node.options.overlapped else node.exchange(step)
        if drift is not None:
            node.x_d.add_(drift)
        if exchange is not None:
            exchange(node.x_d, node.x_d)
        node.put_buffers(buffers)
        return loss

    def _adapt(self, closure: Callable[[], Any] | None) -> Any:
        """The optimizer's own step, left out where a GradScaler has found an overflow."""
        scale = getattr(self, "grad_scale", None)
        if self._overflowed():
            return None
        if scale is not None:
            for p in self._node.flat.parameters:
                if p.grad is not None:
                    p.grad.div_(scale)
        return self.optimizer.step() if closure is None else self.optimizer.step(closure)

    def _require_same_groups(self) -> None:
        """Refuse parameters that were added to the optimizer since."""
        now = parameters_of(self.optimizer)
        mine = self._node.flat.parameters
        if len(now) != len(mine) or any(p is not q for p, q in zip(now, mine, strict=True)):
            raise BasegraphError(
                "the optimizer's parameters have changed since Gossip was built around it: add all "
                "groups first, or build a new Gossip"
            )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients, as the wrapped optimizer does."""
        self.optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's own state, and the number of steps made."""
        return {"optimizer": self.optimizer.state_dict(), "gossip_step": self.gossip_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a state_dict was taken, in the right round.

        The model may be loaded before or after this call. A model that this node had when the
        optimizer was built replaces the one that was broadcast.

        Raises:
            InvalidArgument: It is not a state of `Gossip`.

        """
        self._node.drop_exchange()
        if not {"optimizer", "gossip_step"} <= state_dict.keys():
            raise InvalidArgument("state_dict", sorted(state_dict), "is not a state of Gossip")
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self._gossip_step = state_dict["gossip_step"]
        if self.gossip_step > 0:
            self._node.keep_loaded_model()
