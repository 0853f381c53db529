"""Decentralized optimizers for PyTorch scripts that are started with torchrun.

Every process is a node with its own model and data. A step computes as a torch optimizer does and
then averages with a neighbour or a few, as the topology says, instead of with everybody.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph.algorithms.catalog import ALGORITHMS, algorithm
from basegraph.algorithms.method import where_it_stands
from basegraph.algorithms.split_step import Block, SplitStep
from basegraph.algorithms.stability import communicates, require_stable, round_index
from basegraph.errors import BasegraphError, InvalidArgument, NotFiniteTime
from basegraph.mixing.distributed import DistributedMixer, Pending, Traffic
from basegraph.mixing.handshake import require_alike
from basegraph.topology.catalog import topology as build_topology
from basegraph.topology.integers import at_least
from basegraph.topology.sequence import Topology

ORDERS = ("adapt-then-combine", "combine-then-adapt")
EITHER_ORDER = ("dsgd", "dsgdm")
"""Methods whose step is x ← mix(x - ηd), so that mix(x) - ηd makes sense too."""
BLOCK = 2**16
"""Parameters that are moved at a time: a few such blocks fit into a core's cache."""
SMALL = 2**12
"""Parameters of a tensor up to which its gradient is put together with its neighbours'."""


class _Node:
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
    ) -> None:
        _join(group)
        if order not in ORDERS:
            raise InvalidArgument("order", order, f"must be one of {', '.join(ORDERS)}")
        self.local_steps = at_least(1, local_steps=local_steps)
        self.order = order
        self.group = group
        n = dist.get_world_size(group)
        self.topology = topology if isinstance(topology, Topology) else build_topology(topology, n)
        self.mixer = DistributedMixer(
            self.topology, group, timeout=timeout, wire=wire, refuse_nonfinite=refuse_nonfinite
        )
        self.parameters = parameters
        self.x_d = _flatten(parameters)
        self.pending: Pending | None = None

    def same_everywhere(self, facts: dict[str, object]) -> None:
        """Refuse nodes that are set up differently, then begin where node 0 is."""
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
        first = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        dist.broadcast(self.x_d, src=first, group=self.group)

    def begin(self, step: int) -> None:
        """Start to exchange x for this step, behind whatever is computed next."""
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

    def give_up_exchange(self) -> None:
        """Wait for an exchange behind the computation, and leave its outcome unused."""
        if self.pending is not None:
            self.pending.finish()
        self.pending = None

    def __del__(self) -> None:
        """Messages under way need their buffers: end them before the buffers go."""
        if getattr(self, "pending", None) is not None and dist.is_initialized():
            self.give_up_exchange()

    def to_the_average(self) -> None:
        """One period of gossip from its first round on: every node holds the average."""
        self.give_up_exchange()
        t = self.topology
        if t.period is None or not _finite_time(t):
            raise NotFiniteTime(f"{t.spec} with n={t.n} does not reach the average exactly")
        for step in range(t.period):
            self.mixer.mix(self.x_d, step, out=self.x_d)


class DecentralizedOptimizer(torch.optim.Optimizer):
    """A decentralized method as a torch optimizer, one node per process.

    `algorithm` is a name of the catalogue, with its options `momentum`, `nesterov`, `damping`.
    Parameters are broadcast from node 0. `order="combine-then-adapt"` (dsgd, dsgdm) exchanges x
    behind the next forward and backward pass. `wire` is the type of what is sent, `timeout` the
    seconds after which a neighbour counts as lost, `group` the process group whose ranks are the
    nodes. A node whose gradients overflow under a GradScaler takes part with a zero gradient.
    """

    _step_supports_amp_scaling = True

    def __init__(
        self,
        params: Any,
        algorithm: str = "dsgdm",
        *,
        lr: float,
        topology: str | Topology = "base:k=1",
        momentum: float | None = None,
        nesterov: bool | None = None,
        damping: float | None = None,
        weight_decay: float = 0.0,
        local_steps: int = 1,
        order: str = "adapt-then-combine",
        group: Any = None,
        timeout: float = 300.0,
        wire: torch.dtype | None = None,
        refuse_nonfinite: bool = False,
        allow_unstable: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise InvalidArgument(name, value, "must be a number ≥ 0")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "gossip_step": 0})
        given = {"momentum": momentum, "nesterov": nesterov, "damping": damping}
        options = {name: value for name, value in given.items() if value is not None}
        self.method = _method(algorithm, options)
        if order == "combine-then-adapt" and self.method.name not in EITHER_ORDER:
            raise InvalidArgument(
                "order", order, f"is for {' and '.join(EITHER_ORDER)}, not {self.method.name}"
            )
        self._node = _Node(
            _parameters(self),
            topology,
            group,
            local_steps=local_steps,
            order=order,
            timeout=timeout,
            wire=wire,
            refuse_nonfinite=refuse_nonfinite,
        )
        if not allow_unstable:
            require_stable(self.method, self._node.topology, local_steps)
        settings = {"algorithm": algorithm, **options, "local_steps": local_steps, "order": order}
        self._node.same_everywhere(settings)
        x_d = self._node.x_d
        moves_elsewhere = self.method.gradient_point is not where_it_stands
        self._x = x_d.clone() if moves_elsewhere else x_d  # push-sum's x is not what is evaluated
        self._state = self.method.init(x_d)
        self._state = type(self._state)(*(part.clone() for part in self._state))
        self._split = SplitStep(self.method)
        self._show_state()

    @property
    def traffic(self) -> Traffic:
        """Bytes sent and seconds waited so far."""
        return self._node.mixer.traffic

    @property
    def topology(self) -> Topology:
        """Who talks to whom."""
        return self._node.topology

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step of the method."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        step = self.param_groups[0]["gossip_step"]
        node, blocks = self._node, self._blocks()
        exchange = None
        if node.order == "combine-then-adapt":
            node.combine(step)
        elif communicates(step, node.local_steps):
            exchange = self._average if self.method.centralized else partial(node.mix, step=step)
        self._state = self._split(self._x, self._state, blocks, exchange)
        if self._x is not node.x_d:
            node.x_d.copy_(self.method.gradient_point(self._x, self._state))
        for group in self.param_groups:
            group["gossip_step"] = step + 1
        if node.order == "combine-then-adapt":
            node.begin(step + 1)
        return loss

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

    def state_dict(self) -> dict[str, Any]:
        """Learning rates, states and which gossip step comes next."""
        self._show_state()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a state_dict was taken, in the right round."""
        self._node.give_up_exchange()
        super().load_state_dict(state_dict)
        for name in self._state._fields:
            whole = getattr(self._state, name)
            for p, part in self._parts(whole):
                part.copy_(self.state[p][name].reshape(-1))
        self._show_state()

    def _average(self, outbox: Tensor, out: Tensor) -> Tensor:
        dist.all_reduce(outbox, group=self._node.group)
        return torch.div(outbox, self._node.topology.n, out=out)

    def _parts(self, whole: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter with its part of a flat vector, or with all of what is not per one."""
        first = 0
        for p in self._node.parameters:
            last = first + p.numel()
            yield p, whole[first:last] if len(whole) == len(self._node.x_d) else whole
            first = last

    def _blocks(self) -> list[Block]:
        """The parameters in blocks, with their gradients: those of small tensors put together."""
        first = 0
        blocks: list[Block] = []
        small: list[Tensor] = []
        for group in self.param_groups:
            lr, decay = float(group["lr"]), float(group["weight_decay"])
            for p in group["params"]:
                gradient = self._gradient_of(p)
                if p.numel() <= SMALL:
                    small.append(gradient)
                    continue
                first = self._together(blocks, first, small, lr, decay)
                small = []
                for part in torch.split(gradient, BLOCK):
                    blocks.append(Block(slice(first, first + len(part)), part, lr, decay))
                    first += len(part)
            first = self._together(blocks, first, small, lr, decay)
            small = []
        if self._node.order == "combine-then-adapt":  # the decay is of x before it is combined
            return [self._decayed(block) for block in blocks]
        return blocks

    @staticmethod
    def _together(
        blocks: list[Block], first: int, small: list[Tensor], lr: float, decay: float
    ) -> int:
        if small:
            gradient = torch.cat(small)
            blocks.append(Block(slice(first, first + len(gradient)), gradient, lr, decay))
            first += len(gradient)
        return first

    def _gradient_of(self, p: Tensor) -> Tensor:
        """A parameter's gradient as a vector; zero where there is none or it has overflowed."""
        scale, overflow = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        if p.grad is None or (overflow is not None and float(overflow)):
            return p.new_zeros(1).expand(p.numel())
        if p.grad.is_sparse:
            raise InvalidArgument("gradient", "sparse", "must be dense")
        gradient = p.grad.reshape(-1)
        return gradient if scale is None else gradient / scale

    def _decayed(self, block: Block) -> Block:
        if not block.decay:
            return block
        x = self._node.x_d[block.where]
        return block._replace(grad=block.grad + block.decay * x, decay=0.0)

    def _show_state(self) -> None:
        """Let `state_dict` see the flat state, by parameter."""
        for name in self._state._fields:
            whole = getattr(self._state, name)
            for p, part in self._parts(whole):
                view = part.view(p.shape) if part.numel() == p.numel() else part
                self.state[p][name] = view


class Gossip(torch.optim.Optimizer):
    """Any torch optimizer, and gossip of the parameters after each of its steps.

    The optimizer's own state (AdamW's moments, say) stays at home.
    """

    _step_supports_amp_scaling = True

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        topology: str | Topology = "base:k=1",
        *,
        local_steps: int = 1,
        order: str = "adapt-then-combine",
        group: Any = None,
        timeout: float = 300.0,
        wire: torch.dtype | None = None,
        refuse_nonfinite: bool = False,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise InvalidArgument("optimizer", optimizer, "must be a torch.optim.Optimizer")
        self.optimizer = optimizer
        super().__init__(_parameters(optimizer), {})
        self.param_groups = optimizer.param_groups
        self.gossip_step = 0
        self._node = _Node(
            _parameters(optimizer),
            topology,
            group,
            local_steps=local_steps,
            order=order,
            timeout=timeout,
            wire=wire,
            refuse_nonfinite=refuse_nonfinite,
        )
        self._node.same_everywhere(
            {"optimizer": type(optimizer).__name__, "local_steps": local_steps, "order": order}
        )

    @property
    def traffic(self) -> Traffic:
        """Bytes sent and seconds waited so far."""
        return self._node.mixer.traffic

    @property
    def topology(self) -> Topology:
        """Who talks to whom."""
        return self._node.topology

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """The optimizer's step, then an exchange."""
        node, step = self._node, self.gossip_step
        if node.order == "combine-then-adapt":
            before = node.x_d.clone()
            node.combine(step)
            drift = node.x_d - before  # what the neighbours add; the optimizer steps from x itself
            node.x_d.copy_(before)
            loss = self._adapt(closure)
            node.x_d.add_(drift)
            node.begin(step + 1)
        else:
            loss = self._adapt(closure)
            if communicates(step, node.local_steps):
                node.mix(node.x_d, node.x_d, step)
        self.gossip_step = step + 1
        return loss

    def _adapt(self, closure: Callable[[], Any] | None) -> Any:
        """The optimizer's own step, left out where a GradScaler has found an overflow."""
        scale, overflow = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        if overflow is not None and float(overflow):
            return None
        if scale is not None:
            for p in self._node.parameters:
                if p.grad is not None:
                    p.grad.div_(scale)
        return self.optimizer.step() if closure is None else self.optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.optimizer.zero_grad(set_to_none)

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

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, and which gossip step comes next."""
        return {"optimizer": self.optimizer.state_dict(), "gossip_step": self.gossip_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a state_dict was taken, in the right round."""
        self._node.give_up_exchange()
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.param_groups = self.optimizer.param_groups
        self.gossip_step = state_dict["gossip_step"]


def _join(group: Any) -> None:
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
    dist.init_process_group()


def _method(name: str, options: dict[str, Any]) -> Any:
    if name not in ALGORITHMS:
        return algorithm(name)  # which refuses it
    for option, value in options.items():
        if option not in ALGORITHMS[name].options:
            raise InvalidArgument(option, value, f"{name} has no such option")
    return algorithm(name, **options)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _flatten(parameters: list[Tensor]) -> Tensor:
    """One buffer with all parameters, which become views of it."""
    kinds = {(p.device, p.dtype) for p in parameters}
    if len(kinds) != 1:
        found = sorted(f"{dtype} on {device}" for device, dtype in kinds)
        raise InvalidArgument("params", found, "must all have one type and be on one device")
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    first = 0
    for p in parameters:
        p.data = flat[first : first + p.numel()].view(p.shape)
        first += p.numel()
    return flat


def _finite_time(t: Topology) -> bool:
    """Whether one period is exact, as the topology's own product shows in floating point."""
    total = torch.eye(t.n, dtype=torch.float64)
    for step in range(t.period or 0):
        total = torch.as_tensor(t.round(step).matrix() @ total.numpy())
    return bool((total - 1 / t.n).abs().max() < 1e-9)
