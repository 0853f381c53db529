"""What both optimizers have in common: averages, uneven data, traffic, signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributed.algorithms.join import Join, Joinable, JoinHook

from basegraph.engines.distributed.local_shards import local
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.live import LiveMembership
from basegraph.engines.distributed.membership.meeting import Meeting
from basegraph.engines.distributed.mixer import DistributedMixer
from basegraph.engines.distributed.node import Node
from basegraph.engines.distributed.traffic import Traffic
from basegraph.engines.distributed.turnover import MembershipChange, Turnover
from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.optim.averaging import AVERAGED, CONSENSUS
from basegraph.optim.joining import TakePart, UnevenData
from basegraph.optim.retries import Retries
from basegraph.topologies.analysis.network import Network
from basegraph.topologies.catalog import topology as build_topology
from basegraph.topologies.two_states.sequence import AnyTopology
from basegraph.topologies.verify.own import require_rounds


class NodeOptimizer(torch.optim.Optimizer, Joinable):
    """Base class of the optimizers: a torch optimizer on one of several nodes."""

    _step_supports_amp_scaling = True
    _node: Node
    _retries: Retries
    _own: Tensor | None = None
    """This node's model while `averaged()` shows another."""
    on_membership_change: Callable[[MembershipChange], object] | None = None
    """Called after nodes have come or gone, with the `MembershipChange`."""

    @property
    def gossip_step(self) -> int:
        """Steps made so far; after a fault it goes on where the survivors stopped."""
        raise NotImplementedError

    @property
    def membership(self) -> Membership:
        """Who the nodes are."""
        return self._node.membership

    @property
    def members(self) -> list[str]:
        """The names of the nodes that are there now, in their order."""
        return list(self._node.membership.members)

    @property
    def mixer(self) -> DistributedMixer:
        """What exchanges vectors with the neighbors."""
        return self._node.exchanges.mixer

    @property
    def traffic(self) -> Traffic:
        """Bytes sent and seconds waited so far."""
        return self._node.exchanges.mixer.traffic

    @property
    def is_first_of_node(self) -> bool:
        """Whether this process is the first of its node, or the only one."""
        return self._node.flat.is_first

    @property
    def topology(self) -> AnyTopology:
        """Who talks to whom."""
        return self._node.topology

    def consensus(self, how: str = "auto", network: Network | None = None) -> None:
        """Set every node's model to the average of all models, the same bits everywhere.

        The average is exact, whatever the topology of training is. After gossip node 0's result,
        which differs from the others' by rounding, is broadcast. All nodes must call it, with the
        same arguments.

        Args:
            how: "gossip": the rounds of `short`, the shortest known sequence for one vector per
                node. "two-state": those of `ceca`, ceil(log2 n) of them, with two more vectors in
                memory. "all-reduce": the backend's. "auto": the quickest of these for a model of
                this size, by the model of `basegraph bench model`.
            network: The network that "auto" is about, a `bg.analysis.Network`; default: links of
                200 Mbit/s with a latency of 5 ms.

        Raises:
            InvalidArgument: There is no such way.
            BasegraphError: Inside `averaged()`, which would undo it.
            PeerLost: A node did not answer; this node's model is what it was.

        """
        self._require_no_join(CONSENSUS)
        self.require_own_model(CONSENSUS)
        self._retries.average(CONSENSUS, how, network)

    @contextmanager
    def averaged(self, how: str = "auto", network: Network | None = None) -> Iterator[None]:
        """Set the model to the average of all models inside the block, as for an evaluation.

        This node's own model is back afterwards. All nodes must enter the block.

        Args:
            how: How the average is taken, as for `consensus`.
            network: The network that "auto" is about, as for `consensus`.

        Raises:
            InvalidArgument: There is no such way.
            PeerLost: A node did not answer; this node's model is what it was.

        """
        self._require_no_join(AVERAGED)
        node = self._node
        node.check_parameters()
        own, outer = node.x_d.clone(), self._own
        buffers = None if node.buffers is None else node.buffers.gather()
        if self._retries.average(AVERAGED, how, network):
            own = node.x_d.clone()
        self._own = own if outer is None else outer
        try:
            yield
        finally:
            self._own = outer
            node.flat.gather()
            node.set_model(own)
            node.put_buffers(buffers)

    def _set_step(self, step: int) -> None:
        raise NotImplementedError

    def _begin_at(self, step: int) -> None:
        """Begin after so many steps, as schedulers that are built with `last_epoch` need it."""
        self._set_step(step)
        for group in self.param_groups if step else ():
            group.setdefault("initial_lr", group["lr"])

    def _meet(self, membership: Membership, settings: Mapping[str, object]) -> None:
        """Meet the other nodes for the first time, where they join and leave."""
        self._retries = Retries(self, self._node, self._set_step)
        if isinstance(membership, LiveMembership):
            membership.introduce({**self._node.facts(), **settings})
            self._retries.turnover = turnover = Turnover(self._node, membership, self)
            turnover.start()

    # -- what `Turnover` asks for --------------------------------------------------------------

    @property
    def all_models_equal(self) -> bool:
        """Whether all nodes hold the same model at every step."""
        return False

    def pack(self) -> dict[str, Any]:
        """What a node that comes needs to go on as this one."""
        raise NotImplementedError

    def unpack(self, content: dict[str, Any]) -> None:
        """Go on as the node that has packed this."""
        raise NotImplementedError

    def settle(self, meeting: Meeting) -> int:
        """Go on at the largest step of the nodes that keep their models."""
        return self._retries.settle(meeting.step)

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal has asked this node to stop."""
        return self._node.stop.reason is not None

    def leave(self) -> BaseException:
        """Save the last completed step; the exception that ends this process."""
        self._node.save_and_leave(self.gossip_step)
        return self._node.stop.exit()

    def nodes_changed(self, change: MembershipChange) -> None:
        """Go on with other nodes at the step of the change."""
        self._set_step(change.step)
        if self.on_membership_change is not None:
            self.on_membership_change(change)

    def require_own_model(self, call: str = "step()") -> None:
        """Refuse a call inside `averaged()`."""
        if self._own is not None:
            raise BasegraphError(f"{call} inside averaged(): that model is not this node's own")
        self._node.check_parameters()

    def keep_model(self) -> None:
        """Keep the model as it is now: it was loaded, and is not what was broadcast."""
        self._node.check_initial_model(resumed=True)

    def begin_with_other_nodes(self) -> None:
        """Begin a state anew that is tied to the nodes that there were before."""
        raise NotImplementedError

    def _require_no_join(self, call: str) -> None:
        """Refuse what nodes without data do not take part in."""
        if self._join_config.enable:
            raise BasegraphError(
                f"{call} inside join(): nodes whose data have run out would not take part; call it "
                f"after the block"
            )

    def _listen_for_signals(self) -> None:
        """Save before a signal ends the process, from now on; needs a folder to save in."""
        node = self._node
        if node.checkpoint is not None:
            node.stop.listen(self, node.membership, node.checkpoint)

    def stop_here(self) -> None:
        """Save the last completed step, for a process that is about to end."""
        self._show_own_model()
        self._node.save_and_leave(self.gossip_step)

    def rescue_here(self) -> str:
        """Save the last completed step, because another optimizer of this process lost a node."""
        self._show_own_model()
        return self._node.rescue(self.gossip_step).removeprefix("; ")

    def _show_own_model(self) -> None:
        """Show this node's model again, inside `averaged()`."""
        if self._own is not None:
            self._node.x_d.copy_(self._own)

    def join(self) -> Join:
        """Train on different numbers of batches: `with optimizer.join(): for batch in data: ...`.

        A node whose data have run out keeps taking part in the others' steps, without a gradient of
        its own, until all have ended. It costs one small all-reduce per step.

        Returns:
            The context manager, a `torch.distributed.algorithms.Join`.

        Raises:
            BasegraphError: With live membership: a node whose data have run out leaves instead.

        """
        if self._retries.turnover is not None:
            raise BasegraphError(
                'join() is for membership="fixed": where nodes join and leave, one whose data have '
                "run out may simply exit"
            )
        return UnevenData(self, self.membership)

    def join_hook(self, **options: Any) -> JoinHook:
        """What a node without data does in `torch.distributed.algorithms.Join`."""
        return TakePart(self, self._step_without_data)

    @property
    def join_device(self) -> torch.device:
        """The device of the all-reduce by which nodes learn whether any has data left."""
        return self._node.x_d.device

    @property
    def join_process_group(self) -> Any:
        """The process group of that all-reduce."""
        return self._node.membership.group

    def _step_without_data(self) -> None:
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group while the optimizer is built; later groups are refused."""
        if hasattr(self, "_node"):
            raise BasegraphError(
                "add_param_group: parameters live in one buffer that all nodes exchange; build the "
                "optimizer with all groups, or build a new one"
            )
        super().add_param_group(param_group)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to be copied or pickled: connections to neighbors cannot be."""
        raise BasegraphError(
            f"{type(self).__name__} cannot be copied or pickled; use state_dict() and "
            f"load_state_dict()"
        )

    def _overflowed(self) -> bool:
        """Whether a GradScaler has found gradients that are not finite."""
        overflow = getattr(self, "found_inf", None)
        if overflow is None:
            return False
        here = self._node.x_d.new_full((1,), float(local(overflow)))
        return bool(self._node.flat.total_inside(here))  # all processes of a node do the same


def parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All parameters, group by group."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def topology_for(topology: str | AnyTopology, membership: Membership) -> AnyTopology:
    """The topology itself, or the one of this name for the number of nodes."""
    if isinstance(topology, AnyTopology):
        require_rounds(topology)
        return topology
    if not isinstance(topology, str):
        raise InvalidArgument(
            "topology",
            topology,
            "must be a name or a Topology; bg.from_networkx makes one of a graph",
        )
    built: AnyTopology = build_topology(topology, membership.n)
    return built
