"""A process as a node, and what all optimizers of nodes have in common."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph.algorithms.stability import communicates, round_index
from basegraph.errors import BasegraphError, InvalidArgument, NotFiniteTime, PeerLost
from basegraph.files import writable
from basegraph.mixing.collectives import broadcast
from basegraph.mixing.distributed import DistributedMixer, NotFinite, Pending, Traffic
from basegraph.mixing.group import join
from basegraph.mixing.handshake import require_alike
from basegraph.mixing.memory import empty_like
from basegraph.mixing.progress import leave, watch
from basegraph.optim import survivors
from basegraph.optim.exit import let_groups_go
from basegraph.optim.stop import StopRequest
from basegraph.topology.catalog import topology as build_topology
from basegraph.topology.integers import at_least
from basegraph.topology.properties import reaches_average
from basegraph.topology.sequence import Sequence, Topology

LOG = logging.getLogger("basegraph")
ORDERS = ("adapt-then-combine", "combine-then-adapt")


class Node:
    """A process as a node: its parameters in one flat buffer, and the way to its neighbours."""

    def __init__(
        self,
        parameters: list[Tensor],
        topology: str | Topology,
        group: Any,
        *,
        local_steps: int,
        order: str,
        timeout: float,
        wire: torch.dtype | None,
        refuse_nonfinite: bool,
        checkpoint: str | Path | None,
    ) -> None:
        _join(group, timeout)
        let_groups_go()
        if order not in ORDERS:
            raise InvalidArgument("order", order, f"must be one of {', '.join(ORDERS)}")
        self.local_steps = at_least(1, local_steps=local_steps)
        self.order = order
        self.group = group
        n = dist.get_world_size(group)
        self.topology = topology if isinstance(topology, Topology) else build_topology(topology, n)
        self.mixer = DistributedMixer(
            self.topology,
            group,
            timeout=timeout,
            wire=wire,
            refuse_nonfinite=refuse_nonfinite,
            local_steps=local_steps,
        )
        self.parameters = parameters
        self.x_d = _flatten(parameters)
        self.pending: Pending | None = None
        self.checkpoint = None if checkpoint is None else _folder(checkpoint)
        self.stop = StopRequest(sigterm=checkpoint is not None)
        watch(group, timeout)

    def same_everywhere(self, facts: dict[str, object]) -> int:
        """Refuse nodes that are set up differently, then begin where node 0 is.

        Or, after a fault, where the survivors are in the mean; returns the steps made until then.
        """
        shapes = [tuple(p.shape) for p in self.parameters]
        require_alike(
            {
                "parameters": shapes,
                "dtype": self.x_d.dtype,
                "topology": self.topology.spec,
                **facts,
            },
            self.group,
            self.x_d.device,
        )
        broadcast(self.x_d, self.group, "the first broadcast")
        again = (
            survivors.restart(self.checkpoint, self.x_d, self.group) if self.checkpoint else None
        )
        if again is None or self.checkpoint is None:
            return 0
        self.x_d.copy_(again.x_d)
        survivors.set_aside(self.checkpoint)
        if self.mixer.node == 0:
            LOG.warning("%s; %s for n=%d", again, self.topology.spec, self.topology.n)
        return again.step

    @contextmanager
    def rescued(self, step: int) -> Iterator[None]:
        """A step, of which nothing has moved if a neighbour is lost: then this node is saved."""
        if self.stop.reason is not None:
            saved = "" if self.checkpoint is None else f"; {self._save(step)}"
            LOG.warning("node %d: stopped by %s%s", self.mixer.node, self.stop.reason, saved)
            raise SystemExit(self.stop.exit_code)
        try:
            yield
        except (PeerLost, NotFinite) as error:
            if self.checkpoint is not None:
                error.args = (f"{error}; {self._save(step)}",)
            raise

    def _save(self, step: int) -> str:
        assert self.checkpoint is not None
        facts = {"n": self.topology.n, "step": step}
        path = survivors.save(self.checkpoint, self.mixer.node, {"x": self.x_d}, facts)
        return f"saved node {self.mixer.node} after {step} steps in {path}"

    def begin_early(self, step: int) -> None:
        """Start to exchange x for the step to come, behind whatever is computed until then.

        If a neighbour is found lost already, that step finds it again and says so; this one is
        complete.
        """
        with suppress(PeerLost):
            self.begin(step)

    def begin(self, step: int) -> None:
        """Start to exchange x for this step."""
        if communicates(step, self.local_steps):
            self.pending = self.mixer.start(self.x_d, round_index(step, self.local_steps))

    def combine(self, step: int) -> None:
        """End the exchange that was begun for this step (or make it now): x becomes its outcome."""
        if self.pending is None:
            self.begin(step)
        if self.pending is not None:
            self.pending.finish(self.x_d)
        self.pending = None

    def mix(self, x_d: Tensor, out: Tensor, step: int) -> Tensor:
        """Exchange now."""
        return self.mixer.mix(x_d, round_index(step, self.local_steps), out=out)

    def average(self, x_d: Tensor, out: Tensor, step: int) -> Tensor:
        """All nodes' average, now."""
        return self.mixer.average(x_d, step, out)

    def give_up_exchange(self) -> None:
        """Wait for an exchange behind the computation, and leave its outcome unused."""
        if self.pending is not None:
            self.pending.finish()
        self.pending = None

    def __del__(self) -> None:
        """Messages under way need their buffers: end them before the buffers go."""
        if getattr(self, "pending", None) is not None and dist.is_initialized():
            with suppress(PeerLost):  # which has been said
                self.give_up_exchange()

    def to_the_average(self) -> None:
        """One period of gossip from its first round on: every node holds the average."""
        self.give_up_exchange()
        t = self.topology
        if not isinstance(t, Sequence) or not reaches_average(t):
            raise NotFiniteTime(f"{t.spec} with n={t.n} does not reach the average exactly")
        for step in range(t.period):
            self.mixer.mix(self.x_d, step, out=self.x_d)


class NodeOptimizer(torch.optim.Optimizer):
    """A torch optimizer of a node."""

    _step_supports_amp_scaling = True
    _node: Node

    @property
    def mixer(self) -> DistributedMixer:
        """The way to the neighbours."""
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
        """Bring every node to the average of all models, by one period of gossip alone."""
        self._node.to_the_average()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The average of all models in here, this node's own model again afterwards."""
        own = self._node.x_d.clone()
        self._node.to_the_average()
        try:
            yield
        finally:
            self._node.x_d.copy_(own)

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


def _flatten(parameters: list[Tensor]) -> Tensor:
    """One buffer with all parameters, which become views of it."""
    kinds = {(p.device, p.dtype) for p in parameters}
    if len(kinds) != 1:
        found = sorted(f"{dtype} on {device}" for device, dtype in kinds)
        raise InvalidArgument("params", found, "must all have one type and be on one device")
    flat = empty_like(parameters[0], size=sum(p.numel() for p in parameters))
    first = 0
    for p in parameters:
        place = flat[first : first + p.numel()].view(p.shape)
        p.data = place.copy_(p.detach())
        first += p.numel()
    return flat


def _join(group: Any, timeout: float) -> None:
    """Make sure there is a process group; torchrun's environment is enough to make one."""
    if not dist.is_available():
        raise BasegraphError("this torch has no torch.distributed")
    if dist.is_initialized():
        return
    if group is not None or "WORLD_SIZE" not in os.environ:
        raise BasegraphError(
            "no process group: start the script with torchrun, for example "
            "torchrun --nproc-per-node 4 script.py"
        )
    join(timeout=timeout)
    atexit.register(leave)
