"""A process as a node: its model, its neighbors, how it begins and what it saves."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from basegraph.algorithms.local_steps import communicates, round_index
from basegraph.engines.distributed.buffers import BUFFERS, Companions, running_statistics
from basegraph.engines.distributed.collectives import broadcast
from basegraph.engines.distributed.initial import Beginning
from basegraph.engines.distributed.membership import progress
from basegraph.engines.distributed.membership.handshake import require_alike, require_same_bits
from basegraph.engines.distributed.mixer import DistributedMixer, NotFinite, Pending
from basegraph.engines.distributed.neighbors import NeighborsOf
from basegraph.engines.distributed.parameters import FlatParameters
from basegraph.engines.distributed.recovery import survivors
from basegraph.engines.distributed.recovery.node_files import REASONS, NodeFiles
from basegraph.engines.distributed.shutdown.request import StopRequest
from basegraph.engines.distributed.stamp import OutOfStep, Stamp
from basegraph.errors import InvalidArgument, PeerLost
from basegraph.storage.files import writable
from basegraph.topologies.analysis.rates import reaches_average
from basegraph.topologies.catalog import topology as build_topology
from basegraph.topologies.core.digest import digest
from basegraph.topologies.core.integers import at_least
from basegraph.topologies.core.sequence import Sequence, Topology

LOG = logging.getLogger("basegraph")
ORDERS = ("adapt-then-combine", "combine-then-adapt")


class Node:
    """A process as a node: its parameters in one flat buffer, and the way to its neighbors."""

    def __init__(
        self,
        parameters: list[Tensor],
        topology: Topology,
        group: Any,
        *,
        model: nn.Module | None,
        buffers: str,
        broadcast: bool,
        local_steps: int,
        order: str,
        timeout: float,
        wire: torch.dtype | None,
        refuse_nonfinite: bool,
        checkpoint: str | Path | None,
        checkpoint_every: int,
    ) -> None:
        for name, value, accepted in (("order", order, ORDERS), ("buffers", buffers, BUFFERS)):
            if value not in accepted:
                raise InvalidArgument(name, value, f"must be one of {', '.join(accepted)}")
        if buffers == "average" and model is None:
            raise InvalidArgument("buffers", buffers, "needs model=, the module that has them")
        self.local_steps = at_least(1, local_steps=local_steps)
        self.checkpoint_every = at_least(0, checkpoint_every=checkpoint_every)
        if checkpoint_every and checkpoint is None:
            raise InvalidArgument(
                "checkpoint_every", checkpoint_every, "needs checkpoint=, a folder"
            )
        self.order = order
        self.group = group
        self.topology = topology
        self.mixer = DistributedMixer(
            topology, group, timeout=timeout, wire=wire, refuse_nonfinite=refuse_nonfinite
        )
        self.companions = None if model is None else Companions(model, parameters)
        self.mixes_buffers = buffers == "average"
        self._warn_of_statistics(parameters)
        self.flat = FlatParameters(parameters)
        self.pending: Pending | None = None
        self.checkpoint = None if checkpoint is None else _folder(checkpoint)
        self._files: NodeFiles | None = None
        self.stop = StopRequest()
        progress.watch(group, timeout)
        self._broadcasts = broadcast
        self._beginning: Beginning | None = None

    @property
    def x_d(self) -> Tensor:
        """All parameters in one vector."""
        return self.flat.x_d

    def same_everywhere(self, facts: dict[str, object]) -> int:
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
                "wire": self.mixer.wire,
                "buffers and frozen parameters": [(tuple(t.shape), t.dtype) for t in others],
                "topology": self.topology.spec,
                "rounds": digest(self.topology),
                "checkpoint": self.checkpoint is not None,
                "checkpoint_every": self.checkpoint_every,
                "broadcast": self._broadcasts,
                **facts,
            },
            self.group,
            self.x_d.device,
        )
        tensors = [*self.flat.parameters, *others]
        self._beginning = Beginning(tensors, self.group, broadcast=self._broadcasts)
        if self.checkpoint is None:
            return 0
        self._files = NodeFiles(self.checkpoint, self.group, self.x_d.device)
        again = survivors.restart(self.checkpoint, self.x_d, self.group)
        self._files.begin(again.files if again else ())
        if again is None:
            return 0
        self.x_d.copy_(again.x_d)
        self.begun(resumed=True)
        if self.mixer.node == 0:
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
            if self.stop.came_before(progress.of(self.group).gave_up_at):
                LOG.warning("stopped by %s: %s", self.stop.reason, error)
                raise self.stop.obeyed() from None
            raise

    def stop_here(self, step: int) -> None:
        """Save, and tell the user and the others why this node ends."""
        reason = self.stop.reason or "nobody"
        saved = "" if self._files is None else f"; {self._files.rescue(self.x_d, step)}"
        progress.of(self.group).stops(reason)
        LOG.warning("node %d: stopped by %s%s", self.mixer.node, reason, saved)

    def hold_together(self) -> None:
        """See to it that what is trained is what the model uses."""
        if self.companions is not None:
            self.companions.require_same_parameters()
        if self.flat.left():
            self.flat.take_back()

    def keep(self, step: int) -> None:
        """Write a checkpoint of this node, if one is due after so many steps."""
        if self._files is None or not self.checkpoint_every or step % self.checkpoint_every:
            return
        try:
            self._files.save(self.x_d, step, periodic=True)
        except REASONS as error:  # the last one is still there
            LOG.warning("node %d: no checkpoint after %d steps: %s", self.mixer.node, step, error)

    def begin_early(self, step: int) -> None:
        """Start to exchange x for the step to come, behind whatever is computed until then.

        If a neighbor is found lost already, that step finds it again and says so; this one is
        complete.
        """
        with suppress(PeerLost):
            self.begin(step)

    def begin(self, step: int) -> None:
        """Start to exchange x for this step."""
        if communicates(step, self.local_steps):
            self.pending = self.mixer.start(self.x_d, self._stamp(step), copy=True)

    def drift(self, step: int) -> Tensor | None:
        """End the exchange that was begun for this step (or make it now): what it adds to x."""
        if self.pending is None:
            self.begin(step)
        pending, self.pending = self.pending, None
        return None if pending is None else pending.drift()

    def mix(self, x_d: Tensor, out: Tensor, step: int) -> Tensor:
        """Exchange now."""
        return self.mixer.mix(x_d, self._stamp(step), out=out)

    def average(self, x_d: Tensor, out: Tensor, step: int) -> Tensor:
        """All nodes' average, now."""
        return self.mixer.average(x_d, step, out)

    def mixed_buffers(self, step: int) -> Tensor | None:
        """What the model's buffers become in this step, if they are to be mixed."""
        if self.companions is None or not self.mixes_buffers:
            return None
        own = self.companions.gather()
        if own is None or not communicates(step, self.local_steps):
            return None
        return self.mixer.mix(own, self._stamp(step)._replace(content="buffers"))

    def put_buffers(self, mixed: Tensor | None) -> None:
        """Make these the model's buffers."""
        if self.companions is not None and mixed is not None:
            self.companions.scatter(mixed)

    def _stamp(self, step: int) -> Stamp:
        return Stamp("step()", step, round_index(step, self.local_steps))

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
            x_d = self._averaged(self.x_d, Stamp(phase, step, 0))
            own = None if self.companions is None else self.companions.gather()
            if own is not None:
                own = self._averaged(own, Stamp(phase, step, 0, "buffers"))
        self.x_d.copy_(x_d)
        self.put_buffers(own)

    def _averaged(self, v: Tensor, stamp: Stamp) -> Tensor:
        """The average of a vector over all nodes, the same bits everywhere; the vector stays.

        Nodes round differently, by the order in which they have met: node 0's outcome is the one.
        """
        v = v.clone()
        for number in range(self._exact.topology.period or 0):
            self.mixer.mix(v, stamp._replace(number=number), out=v, rounds=self._exact)
        broadcast(v, self.group, stamp.phase)
        require_same_bits(v, self.group, stamp.phase)
        return v

    @cached_property
    def _exact(self) -> NeighborsOf:
        """The shortest known sequence that averages exactly, whatever the training topology."""
        t = self.topology
        short = build_topology("short:k=1", t.n)
        if self.mixer.node == 0 and not (isinstance(t, Sequence) and reaches_average(t)):
            LOG.warning(
                "%s with n=%d does not reach the average exactly: consensus() and averaged() use "
                "%s, %d rounds",
                *(t.spec, t.n, short.spec, short.period),
            )
        return NeighborsOf(short, self.mixer.node)

    def _warn_of_statistics(self, parameters: list[Tensor]) -> None:
        if self.companions is not None or self.mixer.node > 0 or self.topology.n == 1:
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
