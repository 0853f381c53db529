"""`DecentralizedOptimizer`: a method of the catalogue as a torch optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.join import Joinable

from basegraph.algorithms._stability import largest_stable_damping, require_stable
from basegraph.algorithms.method import Method, require_same_vectors
from basegraph.engines.distributed.blocks import Block, Options, in_blocks, parts_of
from basegraph.engines.distributed.membership.fixed import join_nodes
from basegraph.engines.distributed.method import EITHER_ORDER, NodeMethod
from basegraph.engines.distributed.node import Node
from basegraph.engines.distributed.options import NodeOptions
from basegraph.errors import InvalidArgument, unknown
from basegraph.optim.family import Family
from basegraph.optim.joining import tell_of_data
from basegraph.optim.node_optimizer import (
    NodeOptimizer,
    parameters_of,
    topology_for,
)
from basegraph.topologies.analysis.network import Network
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence

GROUP_KEYS = (
    *("params", "param_names", "name", "gossip_step", "algorithm"),
    *("initial_lr", "max_lr", "min_lr", "swa_lr", "base_momentum", "max_momentum"),
)
"""What a parameter group may hold besides options: names, and what torch's schedulers add."""


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
        weight_decay: Added to the gradient times the parameters.
        model: The module that is trained. Its buffers (BatchNorm's running statistics) and frozen
            parameters then start as node 0's, and buffers are averaged in `consensus()` and
            `averaged()`.
        buffers: "local", or "average": buffers are mixed at every step, as parameters are.
        broadcast: Whether all nodes start from node 0's model; `load_state_dict` restores the model
            that a node had before. If False, the nodes' models must be equal at the first step.
        local_steps: Steps per exchange.
        order: "adapt-then-combine", or "combine-then-adapt" (dsgd, dsgdm): the exchange runs
            behind the next forward and backward pass.
        group: The process group whose ranks are the nodes; all processes if None.
        timeout: Seconds after which a neighbor counts as lost.
        wire: The type of what is sent, such as torch.bfloat16; the parameters' if None.
        refuse_nonfinite: Refuse NaN and infinity, from neighbors and in what this node sends.
        allow_unstable: Go on with a method that is unstable on the topology.
        checkpoint: A folder. A node that loses a neighbor saves its model there, and nodes that
            find such files, however many, begin from the survivors' average.
        checkpoint_every: Save there at every so many steps, too, in case all nodes are lost at
            once; 0 for never.

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
        order: str = "adapt-then-combine",
        group: Any = None,
        timeout: float = 300.0,
        wire: torch.dtype | None = None,
        refuse_nonfinite: bool = True,
        allow_unstable: bool = False,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 0,
    ) -> None:
        given = {"momentum": momentum, "nesterov": nesterov, "damping": damping}
        options: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        self._family = Family(algorithm)
        self._family.require_known(options)
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
        require_same_vectors(self._family.method(self._family.defaults), t)
        if isinstance(t, TwoStateSequence) and buffers == "average":
            raise InvalidArgument(
                "buffers",
                buffers,
                f"is for one vector per node, not for {t.spec}; with 'local', consensus() and "
                f"averaged() average them",
            )
        if damping == "auto":
            assert not isinstance(t, TwoStateSequence)  # or it has been refused above
            options["damping"] = largest_stable_damping(t, local_steps)
        options = {**self._family.defaults, **options}
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
        if order == "combine-then-adapt" and self.method.name not in EITHER_ORDER:
            raise InvalidArgument(
                "order", order, f"is for {' and '.join(EITHER_ORDER)}, not {self.method.name}"
            )
        methods = [self._family.method(group) for group in self.param_groups]
        if not allow_unstable:
            for method in dict.fromkeys([self.method, *methods]):
                require_stable(method, t, local_steps)
        self._node = Node(
            parameters_of(self),
            t,
            membership,
            node_options,
        )
        settings = {
            "algorithm": self.method.name,
            "param_names": [group.get("param_names") for group in self.param_groups],
            "options": [self._family.options(group) for group in self.param_groups],
        }
        self._set_step(self._node.start(settings))
        self._steps = NodeMethod(self.method, self._node, self.gossip_step)
        self._shown: dict[tuple[int, ...], list[dict[str, Tensor]]] = {}
        self._show_state()
        self._listen_for_signals()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group while the optimizer is built; later groups and unknown options are refused.

        Raises:
            BasegraphError: The optimizer is built already.
            InvalidArgument: The group has an option that does not exist, or a wrong value.

        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        known = ("lr", "weight_decay", *self._family.defaults)
        for key in group:
            if key not in known and key not in GROUP_KEYS:
                raise unknown("option of a parameter group", key, known)
        for name in ("lr", "weight_decay"):
            _require_number(name, group[name])
        self._family.method(group)

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
        """Set every node's model, and its second vector if it has one, to the average of all.

        Args:
            how: How the average is taken: see `NodeOptimizer.consensus`.
            network: The network that "auto" is about.

        """
        super().consensus(how, network)
        if self.method.vectors == 2:
            self._steps.state[0].copy_(self.model)

    def _step_without_data(self) -> None:
        self._step(without_gradient=True)

    @torch.no_grad()
    def _step(self, *, without_gradient: bool = False) -> None:
        self._require_own_model()
        step = self.gossip_step
        self._steps.step(step, self._blocks(without_gradient))
        self._show_state()
        self._set_step(step + 1)

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
        """All parameters in one vector, of which the module's are views."""
        return self._node.x_d

    def _set_step(self, step: int) -> None:
        for group in self.param_groups:
            group["gossip_step"] = step

    def state_dict(self) -> dict[str, Any]:
        """The learning rates, the method's state by parameter, and the number of steps made."""
        self._show_state()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a state_dict was taken, in the right round.

        The model may be loaded before or after this call. A model that this node had when the
        optimizer was built replaces the one that was broadcast.

        Raises:
            InvalidArgument: The state is of another method.

        """
        saved = state_dict["param_groups"][0].get("algorithm", self.method.name)
        if saved != self.method.name:
            raise InvalidArgument("state_dict", saved, f"must be a state of {self.method.name}")
        self._node.drop_exchange()
        super().load_state_dict(state_dict)
        for group in self.param_groups:  # of a state that was saved before an option existed
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        if self.gossip_step > 0:
            self._node.keep_loaded_model()
        for name, whole in self._steps.own_vectors().items():
            for p, part in self._parts(whole):
                part.copy_(self.state[p][name].reshape(-1))
        self._show_state()

    def _parts(self, whole: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter with its part of a flat vector, or with all of what is not per one."""
        first = 0
        for p in self._node.flat.parameters:
            last = first + p.numel()
            yield p, whole[first:last] if len(whole) == len(self._node.x_d) else whole
            first = last

    def _show_state(self) -> None:
        """Let `state` and `state_dict` see the flat state, by parameter."""
        whole = self._steps.own_vectors()
        key = tuple(part.data_ptr() for part in whole.values())
        if key not in self._shown:  # a step may put the new state beside the old one: two at most
            views: list[dict[str, Tensor]] = [{} for _ in self._node.flat.parameters]
            for name, vector in whole.items():
                for (p, part), shown in zip(self._parts(vector), views, strict=True):
                    shown[name] = part.view(p.shape) if part.numel() == p.numel() else part
            self._shown[key] = views
        for p, shown in zip(self._node.flat.parameters, self._shown[key], strict=True):
            self.state[p].update(shown)


def _require_number(name: str, value: object) -> None:
    number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
        raise InvalidArgument(name, value, "must be a number ≥ 0")
