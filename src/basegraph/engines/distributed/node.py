"""A process as a node: its model, its neighbors, how it starts and what it saves."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from basegraph.engines.distributed.buffers import ModelBuffers, names_of, warn_of_statistics
from basegraph.engines.distributed.exchanges import Exchanges
from basegraph.engines.distributed.initial import InitialModel
from basegraph.engines.distributed.local_shards import local
from basegraph.engines.distributed.meeting_plan import MeetingPlan
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.handshake import bits_of, require_alike
from basegraph.engines.distributed.options import NodeOptions
from basegraph.engines.distributed.parameters import node_parameters
from basegraph.engines.distributed.pending import NotFinite
from basegraph.engines.distributed.recovery import generation, survivors
from basegraph.engines.distributed.recovery.node_files import REASONS, NodeFiles, writable_folder
from basegraph.engines.distributed.shutdown.request import StopRequest
from basegraph.engines.distributed.stamp import OutOfStep, Stamp
from basegraph.engines.signals import guard_steps
from basegraph.errors import InvalidArgument, PeerLost
from basegraph.topologies.analysis.network import Network
from basegraph.topologies.catalog import topology as build_topology
from basegraph.topologies.core._digest import digest
from basegraph.topologies.two_states.sequence import AnyTopology

LOG = logging.getLogger("basegraph")


class Node:
    """A process as a node: its parameters in one flat buffer, and the way to its neighbors."""

    def __init__(
        self,
        parameters: list[Tensor],
        topology: AnyTopology,
        membership: Membership,
        options: NodeOptions,
    ) -> None:
        if not parameters:
            raise InvalidArgument("params", parameters, "must have a parameter")
        if membership.n != topology.n:
            raise InvalidArgument(
                "topology",
                topology.spec,
                f"is for n={topology.n}; the process group has {membership.n}",
            )
        self.options = options
        self.membership = membership.on(parameters[0].device)
        self.topology = topology
        self.meetings = MeetingPlan(options.local_steps)
        model = options.model
        self.buffers = None if model is None else ModelBuffers(model, parameters)
        self._names = names_of(parameters) if self.buffers is None else self.buffers.names
        if self.buffers is None and self.membership.node == 0 and topology.n > 1:
            warn_of_statistics(parameters)
        self.flat = node_parameters(parameters, self.membership, options)
        self.exchanges = Exchanges(self.flat, topology, self.membership, options)
        self.checkpoint = (
            None if options.checkpoint is None else writable_folder(options.checkpoint)
        )
        self._files: NodeFiles | None = None
        self._moving = False
        """Whether a step has begun that has not been completed."""
        self.stop = StopRequest(watch_torchrun=options.stop_with_torchrun)
        self._initial: InitialModel | None = None
        self._bits_before: int | None = None
        """A checksum of the model before the first broadcast."""

    @property
    def x_d(self) -> Tensor:
        """All parameters in one vector."""
        return self.flat.x_d

    def start(self, facts: Mapping[str, object]) -> int:
        """Start together with the other nodes, from node 0's model or from the survivors' average.

        Args:
            facts: What must be the same on all nodes, by name, besides what a node knows itself.

        Returns:
            The steps made before a fault, 0 without one.

        Raises:
            BasegraphError: A node is set up differently.

        """
        require_alike({**self.facts(), "rounds": digest(self.topology), **facts}, self.membership)
        others = [] if self.buffers is None else self.buffers.all()
        tensors = [*self.flat.parameters, *others]
        self._bits_before = bits_of(self.x_d)
        self._initial = InitialModel(tensors, self.membership, broadcast=self.options.broadcast)
        self.flat.gather()
        if self.checkpoint is None:
            return 0
        self._files = NodeFiles(self.checkpoint, self.membership)
        again = survivors.restart(self.checkpoint, self.x_d, self.membership)
        self._files.begin(again.files if again else ())
        if again is None:
            return 0
        self.set_model(again.x_d)
        self.check_initial_model(resumed=True)
        if self.membership.node == 0:
            LOG.warning("%s; %s for n=%d", again, self.topology.spec, self.topology.n)
            if self.buffers is not None and self.buffers.gather() is not None:
                LOG.warning("the model's buffers (running statistics) start as node 0 has them now")
        return again.step

    def facts(self) -> dict[str, object]:
        """What must be the same on all nodes, by name."""
        return {
            "number of the optimizer": self.exchanges.mixer.number,
            "names of the parameters, in their order": self._names,
            "parameters": [tuple(p.shape) for p in self.flat.parameters],
            **self.flat.facts(),
            "dtype": self.x_d.dtype,
            "buffers and frozen parameters": [(tuple(t.shape), t.dtype) for t in self._others()],
            "topology": self.topology.spec,
            **self.options.common(),
        }

    def _others(self) -> list[Tensor]:
        """Buffers and frozen parameters of the model, as far as this process holds them."""
        return [] if self.buffers is None else [local(t) for t in self.buffers.all()]

    # -- nodes that join and leave --------------------------------------------------------------

    def start_by_itself(self) -> int:
        """Start where nodes join and leave, before the first meeting.

        Returns:
            The steps made before, by the files in the folder for checkpoints; 0 without any.

        """
        if self.checkpoint is None:
            return 0
        self._files = NodeFiles(self.checkpoint, self.membership)
        again = survivors.restart(self.checkpoint, self.x_d, self.membership)
        if again is None:
            return 0
        self.set_model(again.x_d)
        return again.step

    def rebuild(self, step: int) -> None:
        """Go on with other nodes: the topology for their number, from round 0 at this step."""
        self.topology = build_topology(self.topology.spec, self.membership.n)
        self.exchanges.abandon()
        self.exchanges = Exchanges(
            *(self.flat, self.topology, self.membership, self.options),
            start=step,
            traffic=self.exchanges.mixer.traffic,
        )
        if self._files is not None and self.checkpoint is not None:
            generation.begin(self.checkpoint, self._files.generation)

    def saved_after(self, error: PeerLost, step: int) -> PeerLost:
        """Save this node, and say so in the error."""
        if self._files is not None:
            error.args = (f"{error}; {self._files.rescue(self.x_d, step)}",)
        return error

    def pack(self) -> dict[str, Any]:
        """What a node that comes needs, besides what is trained."""
        number = 0 if self._files is None else self._files.generation
        return {"others": [t.detach() for t in self._others()], "generation": number}

    @torch.no_grad()
    def unpack(self, content: dict[str, Any]) -> None:
        """Go on as the node that has packed this."""
        for mine, theirs in zip(self._others(), content["others"], strict=True):
            mine.copy_(theirs)
        if self._files is not None:
            self._files.generation = content["generation"]

    def keep_loaded_model(self, bits: int | None) -> None:
        """Keep the model that was loaded on this node before `start`, instead of node 0's.

        Args:
            bits: The checksum of the model that belongs to the state which is loaded, if known: if
                the model was another one, it was loaded on node 0 alone, and node 0's is kept.

        """
        if self._initial is not None and bits in (None, self._bits_before):
            self._initial.undo()
        self.check_initial_model(resumed=True)

    def check_initial_model(self, *, resumed: bool) -> None:
        """At the first step: refuse nodes with different models, unless they were resumed."""
        if self._initial is not None:
            self._initial.finish(resumed=resumed)
        self._initial = None

    @contextmanager
    def one_step(self, step: int) -> Iterator[None]:
        """What comes before and after a step of the model, which is made inside the block.

        Args:
            step: Steps made so far.

        Raises:
            SystemExit: This node was asked to stop, and has saved its model.
            BasegraphError: The model was replaced, or differs between nodes at the first step.

        """
        if self._files is not None:
            guard_steps()
        with self.rescued(step):
            self.check_initial_model(resumed=step > 0)
            self._moving = True
            yield
            self.flat.scatter()
            self._moving = False
            self.stop.stepped()
        if self.options.overlapped and not self.meetings.due(step + 1):
            self.exchanges.prefetch(step + 1)
        self.save_if_due(step + 1)

    @contextmanager
    def rescued(self, step: int) -> Iterator[None]:
        """Save this node if a neighbor is lost in this call: nothing may have moved until then."""
        self._moving = False  # a script that goes on after an error takes the model as it is
        if self.stop.reason is not None:
            self.save_and_leave(step)
            self.stop.stop_others()
            raise self.stop.exit()
        self.check_parameters()
        try:
            yield
        except (PeerLost, NotFinite, OutOfStep) as error:
            self._moving = False  # nothing has moved in a step whose exchange fails
            if isinstance(error, PeerLost) and self.membership.epoch and not self.stop.reason:
                raise  # the others go on
            if self._files is not None:
                error.args = (f"{error}{self.rescue(step)}{self.stop.rescue_others()}",)
            if self.stop.came_before(self.membership.progress.gave_up_at):
                LOG.warning("stopped by %s: %s", self.stop.reason, error)
                raise self.stop.exit() from None
            raise

    def save_and_leave(self, step: int) -> None:
        """Save, and report to the user and to the others why this node ends."""
        reason = self.stop.reason or "an error"
        saved = self.rescue(step)
        self.membership.progress.stops(reason)
        LOG.warning("node %d: stopped by %s%s", self.membership.node, reason, saved)

    def rescue(self, step: int) -> str:
        """Save this node, if there is a folder for it; says where, or why not."""
        self.stop.saved()
        if self._files is None:
            return ""
        if self._moving:
            return f"; not saved: an error interrupted step {step}"
        return f"; {self._files.rescue(self.x_d, step)}"

    def check_parameters(self) -> None:
        """Make sure that the model still uses the vector that is trained."""
        self.flat.gather()
        if self.buffers is not None:
            self.buffers.require_same_parameters()

    def save_if_due(self, step: int) -> None:
        """Write a checkpoint of this node, if one is due after so many steps."""
        every = self.options.checkpoint_every
        if self._files is None or not every or step % every:
            return
        try:
            self._files.save(self.x_d, step, periodic=True)
        except REASONS as error:  # the previous checkpoint is intact
            LOG.warning(
                "node %d: no checkpoint after %d steps: %s", self.membership.node, step, error
            )

    def mixed_buffers(self, step: int) -> Tensor | None:
        """What the model's buffers become in this step, if they are to be mixed."""
        if self.buffers is None or self.options.buffers == "local":
            return None
        own, exchange = self.buffers.gather(), self.exchanges.at(step, "buffers")
        if own is None or exchange is None:
            return None
        return exchange(self.flat.total_inside(own), torch.empty_like(own))

    def put_buffers(self, mixed: Tensor | None) -> None:
        """Make these the model's buffers."""
        if self.buffers is not None and mixed is not None:
            self.buffers.scatter(mixed)

    def average_models(
        self, phase: str, step: int, how: str = "auto", network: Network | None = None
    ) -> None:
        """Replace every node's model by the average of all; see `ExactAverage`."""
        average = self.exchanges.average
        average.chosen(self.x_d, how, network)  # refused before anything is done
        with self.rescued(step):
            self.exchanges.drop()
            x_d = average(self.x_d, Stamp(phase, step), how, network)
            own = None if self.buffers is None else self.buffers.gather()
            if own is not None:
                own = self.flat.total_inside(own)
                own = average(own, Stamp(phase, step, content="buffers"), how, network)
        self.set_model(x_d)
        self.put_buffers(own)

    def set_model(self, x_d: Tensor) -> None:
        """Make this vector the model."""
        self.x_d.copy_(x_d)
        self.flat.scatter()
