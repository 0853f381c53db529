"""A process as a node: its model, its neighbors, how it begins and what it saves."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph.engines.distributed.buffers import Companions, running_statistics
from basegraph.engines.distributed.exact_average import ExactAverage
from basegraph.engines.distributed.initial import Beginning
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
from basegraph.topologies.analysis.properties import digest
from basegraph.topologies.core.sequence import Topology

LOG = logging.getLogger("basegraph")


class Node:
    """A process as a node: its parameters in one flat buffer, and the way to its neighbors."""

    def __init__(
        self,
        parameters: list[Tensor],
        topology: Topology,
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
        self.companions = None if model is None else Companions(model, parameters)
        self._warn_of_statistics(parameters)
        self.flat = FlatParameters(parameters)
        self.pending: Pending | None = None
        self.checkpoint = None if options.checkpoint is None else _folder(options.checkpoint)
        self._files: NodeFiles | None = None
        self.stop = StopRequest()
        self._beginning: Beginning | None = None

    @property
    def x_d(self) -> Tensor:
        """All parameters in one vector."""
        return self.flat.x_d

    def same_everywhere(self, facts: Mapping[str, object]) -> int:
        """Refuse nodes that are set up differently, then begin where node 0 is.

        Or, after a fault, where the survivors are in the mean; returns the steps made until then.
        """
        others = [] if self.companions is None else self.companions.all()
        require_alike(
            {
                "number of the optimizer": self.mixer.number,
                "parameters": [tuple(p.shape) for p in self.flat.parameters],
                "names": None if self.companions is None else self.companions.names,
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
        self._beginning = Beginning(tensors, self.membership, broadcast=self.options.broadcast)
        if self.checkpoint is None:
            return 0
        self._files = NodeFiles(self.checkpoint, self.membership)
        again = survivors.restart(self.checkpoint, self.x_d, self.membership)
        self._files.begin(again.files if again else ())
        if again is None:
            return 0
        self.x_d.copy_(again.x_d)
        self.begun(resumed=True)
        if self.membership.node == 0:
            LOG.warning("%s; %s for n=%d", again, self.topology.spec, self.topology.n)
            if self.companions is not None and self.companions.gather() is not None:
                LOG.warning("the model's buffers (running statistics) begin as node 0 has them now")
        return again.step

    def resumed(self) -> None:
        """Keep the model that was loaded on this node, instead of node 0's."""
        if self._beginning is not None:
            self._beginning.undo()
        self._beginning = None

    def begun(self, *, resumed: bool) -> None:
        """At the first step: nodes must be alike, and what they were before is forgotten."""
        if self._beginning is not None:
            self._beginning.over(resumed=resumed)
        self._beginning = None

    @contextmanager
    def rescued(self, step: int) -> Iterator[None]:
        """A call, of which nothing has moved if a neighbor is lost: then this node is saved."""
        if self.stop.reason is not None:
            self.stop_here(step)
            raise self.stop.obeyed()
        self.hold_together()
        try:
            yield
        except (PeerLost, NotFinite, OutOfStep) as error:
            if self._files is not None:
                error.args = (f"{error}; {self._files.rescue(self.x_d, step)}",)
            if self.stop.came_before(self.membership.progress.gave_up_at):
                LOG.warning("stopped by %s: %s", self.stop.reason, error)
                raise self.stop.obeyed() from None
            raise

    def stop_here(self, step: int) -> None:
        """Save, and tell the user and the others why this node ends."""
        reason = self.stop.reason or "nobody"
        saved = "" if self._files is None else f"; {self._files.rescue(self.x_d, step)}"
        self.membership.progress.stops(reason)
        LOG.warning("node %d: stopped by %s%s", self.membership.node, reason, saved)

    def hold_together(self) -> None:
        """See to it that what is trained is what the model uses."""
        if self.companions is not None:
            self.companions.require_same_parameters()
        if self.flat.left():
            self.flat.take_back()

    def keep(self, step: int) -> None:
        """Write a checkpoint of this node, if one is due after so many steps."""
        every = self.options.checkpoint_every
        if self._files is None or not every or step % every:
            return
        try:
            self._files.save(self.x_d, step, periodic=True)
        except REASONS as error:  # the last one is still there
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

    def begin_early(self, step: int) -> None:
        """Start to exchange x for the step to come, behind whatever is computed until then.

        If a neighbor is found lost already, that step finds it again and says so; this one is
        complete.
        """
        with suppress(PeerLost):
            self._begin(step)

    def _begin(self, step: int) -> None:
        neighbors = self.schedule.at(step)
        if neighbors is not None:
            stamp = Stamp("step()", step)
            self.pending = self.mixer.start(self.x_d, stamp, neighbors, copy=True)

    def drift(self, step: int) -> Tensor | None:
        """End the exchange that was begun for this step (or make it now): what it adds to x."""
        if self.pending is None:
            self._begin(step)
        pending, self.pending = self.pending, None
        return None if pending is None else pending.drift()

    def mixed_buffers(self, step: int) -> Tensor | None:
        """What the model's buffers become in this step, if they are to be mixed."""
        if self.companions is None or self.options.buffers == "local":
            return None
        own, exchange = self.companions.gather(), self.exchange(step, "buffers")
        if own is None or exchange is None:
            return None
        return exchange(own, torch.empty_like(own))

    def put_buffers(self, mixed: Tensor | None) -> None:
        """Make these the model's buffers."""
        if self.companions is not None and mixed is not None:
            self.companions.scatter(mixed)

    def give_up_exchange(self) -> None:
        """Wait for an exchange behind the computation, and leave its outcome unused."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.wait()

    def __del__(self) -> None:
        """Messages under way need their buffers: end them before the buffers go."""
        if getattr(self, "pending", None) is not None and dist.is_initialized():
            with suppress(PeerLost, OutOfStep):  # which has been said
                self.give_up_exchange()

    def to_the_average(self, phase: str, step: int) -> None:
        """Gossip over the shortest exact sequence: every node holds the average."""
        with self.rescued(step):
            self.give_up_exchange()
            x_d = self._exact(self.x_d, Stamp(phase, step))
            own = None if self.companions is None else self.companions.gather()
            if own is not None:
                own = self._exact(own, Stamp(phase, step, content="buffers"))
        self.x_d.copy_(x_d)
        self.put_buffers(own)

    def _warn_of_statistics(self, parameters: list[Tensor]) -> None:
        if self.companions is not None or self.membership.node > 0 or self.topology.n == 1:
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
