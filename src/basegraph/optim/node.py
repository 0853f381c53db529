"""A process as a node, and what all optimizers of nodes have in common."""

from __future__ import annotations

import atexit
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join, Joinable, JoinHook

from basegraph.algorithms.stability import communicates, round_index
from basegraph.errors import BasegraphError, InvalidArgument, PeerLost
from basegraph.files import writable
from basegraph.mixing.collectives import broadcast
from basegraph.mixing.distributed import DistributedMixer, NotFinite, Pending, Traffic
from basegraph.mixing.group import join, join_alone
from basegraph.mixing.handshake import require_alike, require_same_bits
from basegraph.mixing.neighbors import NeighborsOf
from basegraph.mixing.progress import leave, watch
from basegraph.mixing.stamp import OutOfStep, Stamp
from basegraph.optim import survivors
from basegraph.optim.beginning import Beginning
from basegraph.optim.companions import BUFFERS, Companions, running_statistics
from basegraph.optim.exit import let_groups_go
from basegraph.optim.flat import FlatParameters
from basegraph.optim.joining import TakePart
from basegraph.optim.node_files import REASONS, NodeFiles
from basegraph.optim.stop import StopRequest
from basegraph.topology.catalog import topology as build_topology
from basegraph.topology.integers import at_least
from basegraph.topology.properties import digest, reaches_average
from basegraph.topology.sequence import Sequence, Topology

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
        self.stop = StopRequest(sigterm=checkpoint is not None)
        watch(group, timeout)
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
        self._begun(resumed=True)
        if self.mixer.node == 0:
            LOG.warning("%s; %s for n=%d", again, self.topology.spec, self.topology.n)
        return again.step

    def resumed(self) -> None:
        """Keep the model that was loaded on this node, instead of node 0's."""
        if self._beginning is not None:
            self._beginning.undo()
        self._beginning = None

    def _begun(self, *, resumed: bool) -> None:
        if self._beginning is not None:
            self._beginning.over(resumed=resumed)
        self._beginning = None

    @contextmanager
    def rescued(self, step: int) -> Iterator[None]:
        """A step, of which nothing has moved if a neighbor is lost: then this node is saved."""
        if self.stop.reason is not None:
            saved = "" if self._files is None else f"; {self._files.rescue(self.x_d, step)}"
            LOG.warning("node %d: stopped by %s%s", self.mixer.node, self.stop.reason, saved)
            raise SystemExit(self.stop.exit_code)
        self._hold_together()
        self._begun(resumed=step > 0)
        try:
            yield
        except (PeerLost, NotFinite, OutOfStep) as error:
            if self._files is not None:
                error.args = (f"{error}; {self._files.rescue(self.x_d, step)}",)
            raise

    def _hold_together(self) -> None:
        """See to it that what is trained is what the model uses."""
        if self.companions is not None:
            self.companions.require_same_parameters()
        if self.flat.left():
            if self.pending is not None:
                self.pending.wait()  # what is being sent must not change
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
            self.pending = self.mixer.start(self.x_d, self._stamp(step))

    def combine(self, step: int) -> None:
        """End the exchange that was begun for this step (or make it now): x becomes its outcome."""
        if self.pending is None:
            self.begin(step)
        if self.pending is not None:
            self.pending.finish(self.x_d)
        self.pending = None

    def mix(self, x_d: Tensor, out: Tensor, step: int) -> Tensor:
        """Exchange now."""
        return self.mixer.mix(x_d, self._stamp(step), out=out)

    def average(self, x_d: Tensor, out: Tensor, step: int) -> Tensor:
        """All nodes' average, now."""
        return self.mixer.average(x_d, step, out)

    @contextmanager
    def mixing_buffers(self, step: int) -> Iterator[None]:
        """A step in which the model's buffers are mixed too, if they are to be; first, but they
        are changed when the step has succeeded.
        """
        mixed = None
        if self.companions is not None and self.mixes_buffers:
            own = self.companions.gather()
            if own is not None and communicates(step, self.local_steps):
                mixed = self.mixer.mix(own, self._stamp(step)._replace(content="buffers"))
        yield
        if self.companions is not None and mixed is not None:
            self.companions.scatter(mixed)

    def _stamp(self, step: int) -> Stamp:
        return Stamp("step()", step, round_index(step, self.local_steps))

    def give_up_exchange(self) -> None:
        """Wait for an exchange behind the computation, and leave its outcome unused."""
        if self.pending is not None:
            self.pending.wait()
        self.pending = None

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
        if self.companions is not None and own is not None:
            self.companions.scatter(own)

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
        if self.companions is not None:
            return
        modules = running_statistics(parameters)
        if modules and self.topology.n > 1:
            warnings.warn(
                f"{', '.join(modules)}: running statistics are neither broadcast nor averaged, so "
                f"that nodes predict differently even after consensus(); pass model=",
                stacklevel=4,
            )


class NodeOptimizer(torch.optim.Optimizer, Joinable):
    """A torch optimizer of a node."""

    _step_supports_amp_scaling = True
    _node: Node

    @property
    def gossip_step(self) -> int:
        """Steps made so far; after a fault it goes on where the survivors stopped."""
        raise NotImplementedError

    @property
    def mixer(self) -> DistributedMixer:
        """The way to the neighbors."""
        return self._node.mixer

    @property
    def traffic(self) -> Traffic:
        """Bytes sent and seconds waited so far."""
        return self._node.mixer.traffic

    @property
    def topology(self) -> Topology:
        """Who talks to whom."""
        return self._node.topology

    def consensus(self) -> None:
        """Bring every node to the average of all models, the same bits everywhere.

        The rounds are those of `short`, the shortest known sequence that averages exactly for any
        number of nodes, whatever the topology of training is; then node 0's outcome, which differs
        from the others' by rounding, is broadcast. All nodes must call it.
        """
        self._node.to_the_average("consensus()", self.gossip_step)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The average of all models in here, this node's own model again afterwards."""
        node = self._node
        own = node.x_d.clone()
        buffers = None if node.companions is None else node.companions.gather()
        node.to_the_average("averaged()", self.gossip_step)
        try:
            yield
        finally:
            node.x_d.copy_(own)
            if node.companions is not None and buffers is not None:
                node.companions.scatter(buffers)

    def join(self) -> Join:
        """Train on different numbers of batches: `with optimizer.join(): for batch in data: ...`.

        A node whose data have run out goes on taking part in the others' steps, without a gradient
        of its own, until all have ended; it costs one small all-reduce per step.
        """
        return Join([self])

    def join_hook(self, **options: Any) -> JoinHook:
        """What `torch.distributed.algorithms.Join` has a node do that has no data left."""
        return TakePart(self._step_without_data)

    @property
    def join_device(self) -> torch.device:
        """Where the question whether anybody has data is asked."""
        return self._node.x_d.device

    @property
    def join_process_group(self) -> Any:
        """Of whom it is asked."""
        return self._node.group if self._node.group is not None else dist.group.WORLD

    def _step_without_data(self) -> None:
        raise NotImplementedError

    def _ask_for_data(self) -> None:
        """Inside `join()`: tell the others that this node still has data."""
        try:
            work = Join.notify_join_context(self)
            if work is not None:
                work.wait(timedelta(seconds=self.mixer.timeout))
        except RuntimeError as error:
            raise self.mixer.lost(None, f"step {self.gossip_step}", error) from None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Groups are given to the constructor; later ones are refused."""
        if hasattr(self, "_node"):
            raise BasegraphError(
                "add_param_group: parameters live in one buffer that all nodes exchange; build the "
                "optimizer with all groups, or build a new one"
            )
        super().add_param_group(param_group)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Neither copied nor pickled: the way to the neighbors cannot be."""
        raise BasegraphError(
            f"{type(self).__name__} cannot be copied or pickled; use state_dict() and "
            f"load_state_dict()"
        )

    def _overflowed(self) -> bool:
        """Whether a GradScaler has found gradients that are not finite."""
        found = getattr(self, "found_inf", None)
        return found is not None and bool(float(found))


def parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All parameters, group by group."""
    return [p for group in optimizer.param_groups for p in group["params"]]


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


def join_group(group: Any, timeout: float) -> None:
    """Make sure there is a process group; torchrun's environment is enough to make one.

    Without torchrun (in a debugger, in a notebook) the process is a single node.
    """
    if not dist.is_available():
        raise BasegraphError("this torch has no torch.distributed")
    if not dist.is_initialized():
        if group is not None:
            raise InvalidArgument("group", group, "there is no process group")
        if "WORLD_SIZE" in os.environ:
            join(timeout=timeout)
        else:
            warnings.warn(
                "not started by torchrun: this process is a single node and exchanges nothing. "
                "For four nodes: torchrun --nproc-per-node 4 script.py",
                stacklevel=3,
            )
            join_alone(timeout)
        atexit.register(leave)
    let_groups_go()


def topology_for(topology: str | Topology, group: Any) -> Topology:
    """The topology of the group's nodes."""
    if isinstance(topology, Topology):
        return topology
    return build_topology(topology, dist.get_world_size(group))
