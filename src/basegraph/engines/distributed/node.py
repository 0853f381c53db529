"""A process as a node: its model, its neighbors, how it starts and what it saves."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph.engines.distributed.buffers import ModelBuffers, running_statistics
from basegraph.engines.distributed.exact_average import ExactAverage
from basegraph.engines.distributed.initial import InitialModel
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.handshake import require_alike
from basegraph.engines.distributed.mixer import DistributedMixer, NotFinite, Pending
from basegraph.engines.distributed.neighbors import Schedule
from basegraph.engines.distributed.options import NodeOptions
from basegraph.engines.distributed.parameters import FlatParameters
from basegraph.engines.distributed.recovery import survivors
from basegraph.engines.distributed.recovery.node_files import REASONS, NodeFiles
from basegraph.engines.distributed.shutdown.request import StopRequest
from basegraph.engines.distributed.split_step import Exchange
from basegraph.engines.distributed.stamp import OutOfStep, Stamp
from basegraph.errors import InvalidArgument, PeerLost
from basegraph.storage.files import writable
from basegraph.topologies.analysis.network import Network
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
        self.membership = membership = membership.on(parameters[0].device)
        self.topology = topology
        self.mixer = DistributedMixer(
            membership,
            wire=options.wire,
            refuse_nonfinite=options.refuse_nonfinite,
        )
        self.schedule = Schedule(topology, self.membership.node, options.local_steps)
        self._exact = ExactAverage(topology, self.mixer)
        model = options.model
        self.buffers = None if model is None else ModelBuffers(model, parameters)
        self._warn_of_statistics(parameters)
        self.flat = FlatParameters(parameters)
        self.pending: Pending | None = None
        self.checkpoint = None if options.checkpoint is None else _folder(options.checkpoint)
        self._files: NodeFiles | None = None
        self.stop = StopRequest(watch_torchrun=options.stop_with_torchrun)
        self._initial: InitialModel | None = None

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
        others = [] if self.buffers is None else self.buffers.all()
        require_alike(
            {
                "number of the optimizer": self.mixer.number,
                "parameters": [tuple(p.shape) for p in self.flat.parameters],
                "names": None if self.buffers is None else self.buffers.names,
                "dtype": self.x_d.dtype,
                "buffers and frozen parameters": [(tuple(t.shape), t.dtype) for t in others],
                "topology": self.topology.spec,
                "rounds": digest(self.topology),
                **self.options.common(),
                **facts,
            },
            self.membership,
        )
        tensors = [*self.flat.parameters, *others]
        self._initial = InitialModel(tensors, self.membership, broadcast=self.options.broadcast)
        if self.checkpoint is None:
            return 0
        self._files = NodeFiles(self.checkpoint, self.membership)
        again = survivors.restart(self.checkpoint, self.x_d, self.membership)
        self._files.begin(again.files if again else ())
        if again is None:
            return 0
        self.x_d.copy_(again.x_d)
        self.check_initial_model(resumed=True)
        if self.membership.node == 0:
            LOG.warning("%s; %s for n=%d", again, self.topology.spec, self.topology.n)
            if self.buffers is not None and self.buffers.gather() is not None:
                LOG.warning("the model's buffers (running statistics) start as node 0 has them now")
        return again.step

    def keep_loaded_model(self) -> None:
        """Keep the model that was loaded on this node before `start`, instead of node 0's."""
        if self._initial is not None:
            self._initial.undo()
        self._initial = None

    def check_initial_model(self, *, resumed: bool) -> None:
        """At the first step: refuse nodes with different models, unless they were resumed."""
        if self._initial is not None:
            self._initial.finish(resumed=resumed)
        self._initial = None

    @contextmanager
    def one_step(self, step: int) -> Iterator[None]:
        """What comes before and after a step of the model, which is made inside of the block.

        Args:
            step: Steps made so far.

        Raises:
            SystemExit: This node was asked to stop, and has saved its model.
            BasegraphError: The model was replaced, or differs between nodes at the first step.

        """
        with self.rescued(step):
            self.check_initial_model(resumed=step > 0)
            yield
        if self.options.overlapped:
            self._prefetch(step + 1)
        self.save_if_due(step + 1)

    @contextmanager
    def rescued(self, step: int) -> Iterator[None]:
        """Save this node if a neighbor is lost in this call: nothing may have moved until then."""
        if self.stop.reason is not None:
            self.save_and_leave(step)
            raise self.stop.exit()
        self.check_parameters()
        try:
            yield
        except (PeerLost, NotFinite, OutOfStep) as error:
            if self._files is not None:
                error.args = (f"{error}; {self._files.rescue(self.x_d, step)}",)
            if self.stop.came_before(self.membership.progress.gave_up_at):
                LOG.warning("stopped by %s: %s", self.stop.reason, error)
                raise self.stop.exit() from None
            raise

    def save_and_leave(self, step: int) -> None:
        """Save, and report to the user and to the others why this node ends."""
        reason = self.stop.reason or "nobody"
        saved = "" if self._files is None else f"; {self._files.rescue(self.x_d, step)}"
        self.membership.progress.stops(reason)
        LOG.warning("node %d: stopped by %s%s", self.membership.node, reason, saved)

    def check_parameters(self) -> None:
        """Make sure that the model still uses the vector that is trained."""
        if self.buffers is not None:
            self.buffers.require_same_parameters()
        if self.flat.left():
            self.flat.take_back()

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

    def exchange(
        self, step: int, content: str = "parameters", *, average: bool = False
    ) -> Exchange | None:
        """What makes the exchange of a step, or None if that is a local step.

        Args:
            step: The step.
            content: What is exchanged, one of `stamp.CONTENTS`.
            average: Take the average of all nodes, instead of the topology's round.

        """
        if average:
            exchanges = self.schedule.communicates(step)
            return (lambda v, out: self.mixer.average(v, step, out)) if exchanges else None
        neighbors = self.schedule.at(step)
        if neighbors is None:
            return None
        stamp = Stamp("step()", step, content=content)
        return lambda v, out: self.mixer.mix(v, stamp, neighbors, out=out)

    def _prefetch(self, step: int) -> None:
        """Start the exchange of x for the next step, to run while its gradient is computed.

        If a neighbor turns out to be lost already, that step reports it; this one is complete.
        """
        with suppress(PeerLost):
            self._start_exchange(step)

    def _start_exchange(self, step: int) -> None:
        neighbors = self.schedule.at(step)
        if neighbors is not None:
            stamp = Stamp("step()", step)
            self.pending = self.mixer.start(self.x_d, stamp, neighbors, copy=True)

    def drift(self, step: int) -> Tensor | None:
        """Finish the exchange that was prefetched for this step, or make it now.

        Returns:
            What the exchange adds to x, or None if there was none.

        """
        if self.pending is None:
            self._start_exchange(step)
        pending, self.pending = self.pending, None
        return None if pending is None else pending.drift()

    def mixed_buffers(self, step: int) -> Tensor | None:
        """What the model's buffers become in this step, if they are to be mixed."""
        if self.buffers is None or self.options.buffers == "local":
            return None
        own, exchange = self.buffers.gather(), self.exchange(step, "buffers")
        if own is None or exchange is None:
            return None
        return exchange(own, torch.empty_like(own))

    def put_buffers(self, mixed: Tensor | None) -> None:
        """Make these the model's buffers."""
        if self.buffers is not None and mixed is not None:
            self.buffers.scatter(mixed)

    def drop_exchange(self) -> None:
        """Wait for a prefetched exchange and discard its outcome."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.wait()

    def __del__(self) -> None:
        """Complete messages under way before the buffers that they use are freed."""
        if getattr(self, "pending", None) is not None and dist.is_initialized():
            with suppress(PeerLost, OutOfStep):  # which was reported before
                self.drop_exchange()

    def average_models(
        self, phase: str, step: int, how: str = "auto", network: Network | None = None
    ) -> None:
        """Replace every node's model by the average of all; see `ExactAverage`."""
        self._exact.chosen(self.x_d, how, network)  # refused before anything is done
        with self.rescued(step):
            self.drop_exchange()
            x_d = self._exact(self.x_d, Stamp(phase, step), how, network)
            own = None if self.buffers is None else self.buffers.gather()
            if own is not None:
                stamp = Stamp(phase, step, content="buffers")
                own = self._exact(own, stamp, how, network)
        self.x_d.copy_(x_d)
        self.put_buffers(own)

    def _warn_of_statistics(self, parameters: list[Tensor]) -> None:
        if self.buffers is not None or self.membership.node > 0 or self.topology.n == 1:
            return
        modules = running_statistics(parameters)
        if modules:
            warnings.warn(
                f"{', '.join(modules)}: running statistics are neither broadcast nor averaged, so "
                f"that nodes predict differently even after consensus(); pass model=",
                stacklevel=4,
            )


def _folder(path: str | Path) -> Path:
    """A folder that can be written to."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidArgument("checkpoint", str(path), f"cannot be made: {reason}") from None
    writable("checkpoint", folder / "node.safetensors", force=True)
    return folder
