"""`DecentralizedOptimizer`: a method of the catalogue as a torch optimizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.join import Joinable

from basegraph.algorithms.method import Method, require_same_vectors
from basegraph.engines.distributed.blocks import Block, Options, in_blocks, parts_of
from basegraph.engines.distributed.membership.live import LiveMembership
from basegraph.engines.distributed.method import NodeMethod, require_order
from basegraph.engines.distributed.node import Node
from basegraph.engines.distributed.options import NodeOptions
from basegraph.engines.distributed.turnover import MembershipChange
from basegraph.errors import InvalidArgument
from basegraph.optim.family import Family
from basegraph.optim.joining import tell_of_data
from basegraph.optim.membership import membership_for
from basegraph.optim.node_optimizer import (
    NodeOptimizer,
    parameters_of,
    topology_for,
)
from basegraph.optim.outer import outer_facts, outer_of
from basegraph.optim.stable import StableOptions
from basegraph.optim.state_origin import require_own, with_origin, without_origin
from basegraph.optim.state_views import StateViews
from basegraph.topologies.analysis.network import Network
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence
from basegraph.wires.catalog import require_wire

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class DecentralizedOptimizer(NodeOptimizer):
    """A decentralized method as a torch optimizer, one node per process.

    A node whose gradients overflow under a GradScaler takes part with a zero gradient. A parameter
    without a gradient has a zero one, and no weight decay.

    Args:
        params: Parameters, or parameter groups. A group may have its own lr, weight_decay and
            options of the method.
        algorithm: A catalogue name, or a method made before.
        lr: The learning rate η.
        topology: A catalogue name, built for the number of nodes, or a topology. The methods
            dsgd-ceca and dsgdm-ceca need one with two vectors per node: "ceca".
        momentum: An option of the method.
        nesterov: An option of the method.
        damping: An option of the method; "auto" takes the largest that is stable.
        weight_decay: Added to the gradient times the parameters; decoupled for adamw, as in
            torch.optim.AdamW.
        model: The module that is trained. Its buffers (BatchNorm's running statistics) and frozen
            parameters then start as node 0's, and buffers are averaged in `consensus()` and
            `averaged()`.
        buffers: "local", or "average": buffers are mixed at every step, as parameters are.
        broadcast: Whether all nodes start from node 0's model; `load_state_dict` restores the model
            that a node had loaded before. If False, all models must be equal at the first step.
        local_steps: Steps per exchange.
        outer: A method of the catalogue, such as "dsgdm:momentum=0.9,nesterov=true": at an exchange
            it makes a step from the model of the last one along the change that the local steps
            made, and its messages are what is exchanged.
        outer_lr: Its learning rate.
        order: "adapt-then-combine", or "combine-then-adapt" (dsgd, dsgdm, adamw): the exchange runs
            behind the next forward and backward pass.
        group: The process group whose ranks are the nodes; all processes if None.
        mesh: Instead of a group, the dimension of a `DeviceMesh` between nodes, as `mesh["node"]`.
            Parameters may then be `DTensor`s on its other dimensions, as FSDP2 makes them.
        timeout: Seconds after which a neighbor counts as lost.
        wire: How parameters are sent: a type such as torch.bfloat16, or "bf16", "int8", "fp8",
            "topk:0.01", "randk:0.01", with options as in "int8:block=64"; as they are if None.
        refuse_nonfinite: Refuse NaN and infinity, from neighbors and in what this node sends.
        allow_unstable: Go on with a method that is unstable on the topology.
        checkpoint: A folder. A node that loses a neighbor saves its model there, and nodes that
            find such files, however many, begin from the survivors' average.
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
        ...     optimizer = DecentralizedOptimizer(model.parameters(), "qg-dsgdm", lr=0.1)
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> optimizer.step()
        >>> optimizer.consensus()  # the exact average of all nodes' models
        >>> optimizer.gossip_step
        1
        >>> torch.distributed.destroy_process_group()

    """

    def __init__(
        self,
        params: Any,
        algorithm: str | Method = "dsgdm",
        *,
        lr: float,
        topology: str | AnyTopology = "base:k=1",
        momentum: float | None = None,
        nesterov: bool | None = None,
        damping: float | str | None = None,
        weight_decay: float = 0.0,
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
        allow_unstable: bool = False,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 0,
        membership: str = "fixed",
        lighthouse: str | None = None,
    ) -> None:
        given = {"momentum": momentum, "nesterov": nesterov, "damping": damping}
        options: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
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
        self._family = Family(algorithm, outer_parts)
        self._family.require_known(options)
        nodes = membership_for(membership, lighthouse, group, mesh, topology, node_options)
        t = topology_for(topology, nodes)
        require_same_vectors(self._family.method(self._family.defaults), t)
        if node_options.sends_by is not None:
            require_wire(node_options.sends_by, t, self._family.method(self._family.defaults))
        if isinstance(t, TwoStateSequence) and buffers == "average":
            raise InvalidArgument(
                "buffers",
                buffers,
                f"is for one vector per node, not for {t.spec}; with 'local', consensus() and "
                f"averaged() average them",
            )
        automatic = damping == "auto"
        self._stable = StableOptions(self._family, automatic, allow_unstable, local_steps)
        options = {**self._family.defaults, **options, **self._stable.of(t)}
        Joinable.__init__(self)
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                **options,
                "gossip_step": 0,
                "algorithm": self._family.name,
            },
        )
        self.method = self._family.method(self.defaults)
        require_order(self.method, node_options)
        self._family.require_alike([self.defaults, *self.param_groups])
        self._stable.require([self.defaults, *self.param_groups], t)
        self._node = Node(parameters_of(self), t, nodes, node_options)
        settings: dict[str, Any] = {
            "algorithm": self.method.name,
            "outer": outer_facts(outer_parts),
            "param_names": [group.get("param_names") for group in self.param_groups],
            "options": [self._family.options(group) for group in self.param_groups],
        }
        live = isinstance(nodes, LiveMembership)
        self._begin_at(self._node.start_by_itself() if live else self._node.start(settings))
        self._steps = NodeMethod(self.method, self._node, self.gossip_step)
        self._views = StateViews(self._node.flat)
        self._show_state()
        if automatic:
            settings["options"] = [{**each, "damping": "auto"} for each in settings["options"]]
        self._meet(nodes, settings)
        self._listen_for_signals()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group while the optimizer is built; later groups and unknown options are refused.

        Raises:
            BasegraphError: The optimizer is built already.
            InvalidArgument: The group has an option that does not exist, or a wrong value.

        """
        super().add_param_group(param_group)
        self._family.require_group(self.param_groups[-1])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step of the method, with the neighbors.

        Args:
            closure: Computes the gradients, and returns the loss.

        Returns:
            The loss, if there is a closure.

        Raises:
            PeerLost: A neighbor did not answer; nothing has moved, and this node is saved if there
                is a folder for checkpoints.

        """
        tell_of_data(self, self.membership)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._step()
        return loss

    def consensus(self, how: str = "auto", network: Network | None = None) -> None:
        """Set every node's model to the average of all, and its anchor or second vector, too.

        Args:
            how: How the average is taken: see `NodeOptimizer.consensus`.
            network: The network that "auto" is about.

        """
        super().consensus(how, network)
        if self.method.outer is not None:
            self._steps.own_vectors()["anchor"].copy_(self.model)
        if self.method.vectors == 2:
            self._steps.state[0].copy_(self.model)

    def _step_without_data(self) -> None:
        self._step(without_gradient=True)

    @torch.no_grad()
    def _step(self, *, without_gradient: bool = False) -> None:
        self.require_own_model()

        def work(step: int) -> None:
            self._steps.step(step, self._blocks(without_gradient))
            self._show_state()

        self._retries.step(work)

    def _blocks(self, without_gradient: bool) -> list[Block]:
        groups = [
            (
                group["params"],
                Options(float(group["lr"]), float(group["weight_decay"]), method),
            )
            for group in self.param_groups
            for method in [self._family.method(group)]
        ]
        scale = getattr(self, "grad_scale", None)
        nothing = without_gradient or self._overflowed()
        return in_blocks(parts_of(groups, scale, overflowed=nothing))

    @property
    def gossip_step(self) -> int:
        """Steps made so far; after a fault it goes on where the survivors stopped."""
        return int(self.param_groups[0]["gossip_step"])

    @property
    def model(self) -> Tensor:
        """All parameters in one vector, of which the module's are views.

        Of sharded parameters: what this process holds of them, a copy of the last step's.
        """
        return self._node.x_d

    def _set_step(self, step: int) -> None:
        for group in self.param_groups:
            group["gossip_step"] = step

    @property
    def all_models_equal(self) -> bool:
        """Whether all nodes hold the same model at every step, as with all-reduce."""
        return self.method.centralized

    def pack(self) -> dict[str, Any]:
        """The model, the method's state and the groups' options, for a node that comes."""
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]
        return {"vectors": self._steps.vectors(), "groups": groups}

    @torch.no_grad()
    def unpack(self, content: dict[str, Any]) -> None:
        """Go on with the model, the state and the learning rates of another node."""
        self._steps.restore(content["vectors"])
        for group, theirs in zip(self.param_groups, content["groups"], strict=True):
            group.update(theirs)

    def nodes_changed(self, change: MembershipChange) -> None:
        """Go on with other nodes; a state that is tied to those that were there begins anew."""
        for group in self.param_groups:
            group.update(self._stable.of(self.topology))
        self._stable.warn(self.param_groups, self.topology)  # the others must not stop for it
        self._set_step(change.step)
        self.begin_with_other_nodes()
        super().nodes_changed(change)

    def begin_with_other_nodes(self) -> None:
        """Begin a state anew that is tied to the nodes that there were before."""
        if not self.method.keeps_state:
            self._node.check_parameters()
            self._steps.restart(self._node.x_d.clone(), self.gossip_step)
        self._show_state()

    def state_dict(self) -> dict[str, Any]:
        """The learning rates, the method's state by parameter, and the number of steps made.

        Inside `averaged()`, it is one to go on with from the average, on all nodes: a state that
        is tied to each node's model is begun anew, and momentum is this node's.
        """
        self._show_state()
        state = super().state_dict()
        if self._own is not None:
            vectors = self._steps.own_vectors_from_here(self.gossip_step)
            state["state"] = dict(enumerate(self._views.by_parameter(vectors)))
        tied = not self.method.keeps_state and self.gossip_step > 0 and self._own is None
        return with_origin(state, self._node, tied=tied)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a state_dict was taken, in the right round.

        The model may be loaded before or after this call. If this node had the state's model when
        the optimizer was built, that replaces the one that was broadcast. A damping of "auto" is
        that of the topology there is now.

        Raises:
            InvalidArgument: The state is of another method or optimizer, or tied to another node.
            Unstable: The method is unstable on this topology with the options of the state.

        """
        state_dict, origin = without_origin(state_dict)
        self._require_usable(state_dict)
        require_own(origin, self._node, self.method.name)
        self._node.exchanges.reset()
        super().load_state_dict(state_dict)
        for group in self.param_groups:  # of a state that was saved before an option existed
            for name, value in self.defaults.items():
                group.setdefault(name, value)
            group.update(self._stable.of(self.topology))
        if self.gossip_step > 0:
            self._node.keep_loaded_model(origin.bits)
        self._views.load(self._steps.own_vectors(), self.state)
        self._show_state()

    def _require_usable(self, state_dict: dict[str, Any]) -> None:
        """Refuse a state before anything of it is taken."""
        groups = state_dict.get("param_groups") or [{}]
        if "gossip_step" not in groups[0]:
            raise InvalidArgument(
                "state_dict",
                sorted(state_dict),
                "is not a state of DecentralizedOptimizer; Gossip's inner optimizer takes torch's",
            )
        saved = groups[0].get("algorithm", self.method.name)
        if saved != self.method.name:
            raise InvalidArgument("state_dict", saved, f"must be a state of {self.method.name}")
        options = self._stable.of(self.topology)
        self._stable.require([{**self.defaults, **g, **options} for g in groups], self.topology)

    def _show_state(self) -> None:
        """Let `state` and `state_dict` see the flat state, by parameter."""
        for p, shown in self._views.of(self._steps.own_vectors()):
            self.state[p].update(shown)
