"""`Gossip`: any torch optimizer, and an exchange with the neighbors after its steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.join import Joinable

from basegraph.algorithms._stability import require_stable
from basegraph.algorithms.method import Method
from basegraph.engines.distributed.local_shards import local
from basegraph.engines.distributed.membership.live import LiveMembership
from basegraph.engines.distributed.node import Node
from basegraph.engines.distributed.options import NodeOptions
from basegraph.engines.distributed.outer_step import OuterStep
from basegraph.engines.distributed.turnover import MembershipChange
from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.optim.joining import tell_of_data
from basegraph.optim.membership import membership_for
from basegraph.optim.node_optimizer import (
    NodeOptimizer,
    parameters_of,
    topology_for,
)
from basegraph.optim.outer import outer_facts, outer_of
from basegraph.optim.state_origin import require_own, with_origin, without_origin
from basegraph.optim.state_views import StateViews
from basegraph.optim.wrapped_state import STEP, WrappedState, asked_for_state_only
from basegraph.topologies.analysis.network import Network
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.sequence import refuse_two_states
from basegraph.wires.catalog import require_wire

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


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
            that a node had loaded before. If False, all models must be equal at the first step.
        local_steps: Steps per exchange.
        outer: A method of the catalogue, such as "dsgdm:momentum=0.9,nesterov=true": at an exchange
            it makes a step from the model of the last one along the change that the local steps
            made, and its messages are what is exchanged. With "allreduce-sgd:nesterov=true" this is
            DiLoCo.
        outer_lr: Its learning rate.
        order: "adapt-then-combine", or "combine-then-adapt": the exchange runs behind the next
            forward and backward pass.
        group: The process group whose ranks are the nodes; all processes if None.
        mesh: Instead of a group, the dimension of a `DeviceMesh` between nodes, as `mesh["node"]`.
            Parameters may then be `DTensor`s on its other dimensions, as FSDP2 makes them.
        timeout: Seconds after which a neighbor counts as lost.
        wire: How parameters are sent: a type such as torch.bfloat16, or "bf16", "int8", "fp8",
            "topk:0.01", "randk:0.01", with options as in "int8:block=64"; as they are if None.
        refuse_nonfinite: Refuse NaN and infinity, from neighbors and in what this node sends.
        checkpoint: A folder. A node that loses a neighbor saves its model there (after the
            optimizer's step, before the exchange), and nodes that find such files, however many,
            begin from the survivors' average.
        checkpoint_every: Save there at every so many steps, too, in case all nodes are lost at
            once; 0 for never.
        membership: "fixed", the processes of the group, or "live": nodes join and leave while the
            others train on, and torchft's lighthouse knows who is there.
        lighthouse: Its address, as in "http://127.0.0.1:29510", for a live membership; None takes
            `TORCHFT_LIGHTHOUSE`.

    Example:
        >>> import warnings
        >>> model = torch.nn.Linear(2, 1)
        >>> with warnings.catch_warnings():  # without torchrun, that this is a single node
        ...     warnings.simplefilter("ignore")
        ...     optimizer = Gossip(torch.optim.AdamW(model.parameters()), topology="base:k=1")
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> optimizer.step()
        >>> optimizer.consensus()  # the exact average of all nodes' models
        >>> optimizer.gossip_step
        1
        >>> torch.distributed.destroy_process_group()

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
        outer: str | Method | None = None,
        outer_lr: float | None = None,
        order: str = "adapt-then-combine",
        group: Any = None,
        mesh: DeviceMesh | None = None,
        timeout: float = 300.0,
        wire: str | torch.dtype | None = None,
        refuse_nonfinite: bool = True,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 0,
        membership: str = "fixed",
        lighthouse: str | None = None,
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
        outer_parts = outer_of(outer, outer_lr, node_options)
        nodes = membership_for(membership, lighthouse, group, mesh, topology, node_options)
        t = topology_for(topology, nodes)
        refuse_two_states(
            "topology",
            t,
            "Gossip mixes one: use short:k=1, or DecentralizedOptimizer with dsgdm-ceca",
        )
        if node_options.sends_by is not None:
            require_wire(node_options.sends_by, t, outer_parts and outer_parts[0])
        Joinable.__init__(self)
        super().__init__(parameters_of(optimizer), {})
        self.optimizer = optimizer
        self.defaults = optimizer.defaults
        if outer_parts is not None:
            require_stable(outer_parts[0], t)
        self._node = Node(parameters_of(optimizer), t, nodes, node_options)
        self._outer = None if outer_parts is None else OuterStep(*outer_parts, self._node)
        self._wrapped = WrappedState(optimizer, self._outer, StateViews(self._node.flat))
        settings = {
            "optimizer": type(optimizer).__name__,
            "outer": outer_facts(outer_parts),
            "param_names": [group.get("param_names") for group in optimizer.param_groups],
        }
        live = isinstance(nodes, LiveMembership)
        self._begin_at(self._node.start_by_itself() if live else self._node.start(settings))
        self._meet(nodes, settings)
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

    @property
    def state(self) -> defaultdict[Tensor, Any]:
        """The wrapped optimizer's state by parameter, with the outer method's."""
        return self._wrapped.by_parameter() if hasattr(self, "_wrapped") else defaultdict(dict)

    @state.setter
    def state(self, state: defaultdict[Tensor, Any]) -> None:
        """Nothing to set: torch's constructor begins with none."""

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
        if asked_for_state_only():
            return self._make_state()
        tell_of_data(self, self.membership)
        return self._step(lambda: self._adapt(closure))

    def _make_state(self) -> None:
        """Make the state that a first step would make; no parameter moves, and no step counts."""
        self.optimizer.step()
        for values in self.optimizer.state.values():
            if isinstance(values.get("step"), Tensor):
                values["step"].zero_()
        if self._outer is not None:
            self._outer.prepare()

    def _step_without_data(self) -> None:
        self._step(lambda: None)

    @torch.no_grad()
    def _step(self, adapt: Callable[[], Any]) -> Any:
        self.require_own_model()
        self._require_same_groups()
        adapted: list[Any] = []  # the optimizer's step is made once, also if an exchange fails

        def once() -> Any:
            if not adapted:
                adapted.append(adapt())
            return adapted[0]

        def work(step: int) -> Any:
            with self._node.one_step(step):
                return self._adapt_and_combine(once, step)

        loss = self._retries.step(work)
        return adapted[0] if adapted else loss

    def _set_step(self, step: int) -> None:
        self._gossip_step = step
        for group in self.param_groups:
            group[STEP] = step

    def pack(self) -> dict[str, Any]:
        """The model and the optimizer's state, for a node that comes."""
        outer = {} if self._outer is None else self._outer.vectors()
        return {"x": self._node.x_d, "optimizer": self.optimizer.state_dict(), "outer": outer}

    @torch.no_grad()
    def unpack(self, content: dict[str, Any]) -> None:
        """Go on with the model, the state and the learning rates of another node."""
        self._node.flat.gather()
        self._node.set_model(content["x"])
        self.optimizer.load_state_dict(content["optimizer"])
        if self._outer is not None:
            self._outer.load(content["outer"])

    def nodes_changed(self, change: MembershipChange) -> None:
        """Go on with other nodes; an outer state that is tied to those before begins anew."""
        self._set_step(change.step)
        self.begin_with_other_nodes()
        super().nodes_changed(change)

    def begin_with_other_nodes(self) -> None:
        """Begin an outer state anew that is tied to the nodes that there were before."""
        if self._outer is not None and not self._outer.method.keeps_state:
            self._outer.begin_anew(self.gossip_step)

    def _adapt_and_combine(self, adapt: Callable[[], Any], step: int) -> Any:
        node, outer = self._node, self._outer
        if outer is not None:
            outer.begin(step)
        drift = node.exchanges.drift(step) if node.options.overlapped else []
        loss = adapt()
        node.check_parameters()  # an optimizer may assign p.data
        buffers = node.mixed_buffers(step)  # which a closure has updated
        exchange = None if node.options.overlapped or outer else node.exchanges.at(step)
        if outer is not None:
            outer.step(step)
        node.exchanges.move(node.x_d, drift)
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
                    local(p.grad).div_(scale)
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

    def consensus(self, how: str = "auto", network: Network | None = None) -> None:
        """Set every node's model, and its anchor, to the average of all models.

        Args:
            how: How the average is taken: see `NodeOptimizer.consensus`.
            network: The network that "auto" is about.

        """
        super().consensus(how, network)
        if self._outer is not None:
            self._outer.restart_here()

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's own state, the outer method's, and the number of steps made.

        It has the form of any torch optimizer's, with `gossip_step` in every group. Inside of
        `averaged()`, it is one to go on with from the average, on all nodes: the outer method's
        anchor is the average, too.
        """
        for before in self._optimizer_state_dict_pre_hooks.values():
            before(self)
        packed = self._wrapped.pack(None if self._own is None else self.gossip_step)
        outer = self._outer
        tied = outer is not None and not outer.method.keeps_state and self._own is None
        packed = with_origin(packed, self._node, tied=tied and self.gossip_step > 0)
        for after in self._optimizer_state_dict_post_hooks.values():
            packed = after(self, packed) or packed
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a state_dict was taken, in the right round.

        The model may be loaded before or after this call. If this node had the state's model when
        the optimizer was built, that replaces the one that was broadcast.

        Raises:
            InvalidArgument: It is not a state of `Gossip`, or of another node and tied to it.

        """
        state_dict = {**state_dict}
        for before in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = before(self, state_dict) or state_dict
        state_dict, origin = without_origin(state_dict)
        if self._outer is not None:
            require_own(origin, self._node, self._outer.method.name)
        self._node.exchanges.reset()
        self._set_step(self._wrapped.load(state_dict))
        if self.gossip_step > 0:
            self._node.keep_loaded_model(origin.bits)
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)
