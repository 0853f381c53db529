"""`DecentralizedOptimizer`: a method of the catalogue as a torch optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from basegraph.algorithms.catalog import ALGORITHMS, algorithm
from basegraph.algorithms.method import Method, where_it_stands
from basegraph.algorithms.split_step import Block, SplitStep
from basegraph.algorithms.stability import communicates, largest_stable_damping, require_stable
from basegraph.errors import InvalidArgument
from basegraph.mixing.memory import copy_of
from basegraph.optim.node import Node, NodeOptimizer, parameters_of
from basegraph.topology.sequence import Topology

EITHER_ORDER = ("dsgd", "dsgdm")
"""Methods whose step is x ← mix(x - ηd), so that mix(x) - ηd makes sense too."""
BLOCK = 2**17
"""Parameters that are moved at a time: a few such blocks fit into a core's cache."""
SMALL = 2**12
"""Parameters of a tensor up to which its gradient is put together with its neighbours'."""


class DecentralizedOptimizer(NodeOptimizer):
    """A decentralized method as a torch optimizer, one node per process.

    `algorithm` is a name of the catalogue, with its options `momentum`, `nesterov` and `damping`
    (a number, or "auto": the largest stable on the topology), or a method made before.
    Parameters are broadcast from node 0. `order="combine-then-adapt"` (dsgd, dsgdm) exchanges x
    behind the next forward and backward pass. `wire` is the type of what is sent, `timeout` the
    seconds after which a neighbour counts as lost, `group` the process group whose ranks are the
    nodes. A node whose gradients overflow under a GradScaler takes part with a zero gradient.
    With a folder as `checkpoint`, a node that loses a neighbour saves its model there, and nodes
    that find such files, however many they are, begin from the survivors' average.
    """

    def __init__(
        self,
        params: Any,
        algorithm: str | Method = "dsgdm",
        *,
        lr: float,
        topology: str | Topology = "base:k=1",
        momentum: float | None = None,
        nesterov: bool | None = None,
        damping: float | str | None = None,
        weight_decay: float = 0.0,
        local_steps: int = 1,
        order: str = "adapt-then-combine",
        group: Any = None,
        timeout: float = 300.0,
        wire: torch.dtype | None = None,
        refuse_nonfinite: bool = False,
        allow_unstable: bool = False,
        checkpoint: str | Path | None = None,
    ) -> None:
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise InvalidArgument(name, value, "must be a number ≥ 0")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "gossip_step": 0})
        given = {"momentum": momentum, "nesterov": nesterov, "damping": damping}
        options: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        self.method = _method(
            algorithm, {**options, **({"damping": 1.0} if damping == "auto" else {})}
        )
        if order == "combine-then-adapt" and self.method.name not in EITHER_ORDER:
            raise InvalidArgument(
                "order", order, f"is for {' and '.join(EITHER_ORDER)}, not {self.method.name}"
            )
        self._node = Node(
            parameters_of(self),
            topology,
            group,
            local_steps=local_steps,
            order=order,
            timeout=timeout,
            wire=wire,
            refuse_nonfinite=refuse_nonfinite,
            checkpoint=checkpoint,
        )
        if damping == "auto":
            options["damping"] = largest_stable_damping(self._node.topology, local_steps)
            self.method = _method(algorithm, options)
        if not allow_unstable:
            require_stable(self.method, self._node.topology, local_steps)
        settings = {
            "algorithm": self.method.name,
            **options,
            "local_steps": local_steps,
            "order": order,
        }
        self._begin_at(self._node.same_everywhere(settings))
        x_d = self._node.x_d
        moves_elsewhere = self.method.gradient_point is not where_it_stands
        self._x = copy_of(x_d) if moves_elsewhere else x_d  # push-sum's x is not what is evaluated
        self._state = self.method.state(x_d, self.gossip_step)
        self._state = type(self._state)(*(copy_of(part) for part in self._state))
        self._split = SplitStep(self.method)
        self._show_state()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step of the method."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        step, node = self.gossip_step, self._node
        with node.rescued(step):
            blocks = self._blocks()
            exchange = None
            if node.order == "combine-then-adapt":
                node.combine(step)
            elif communicates(step, node.local_steps):
                centralized = self.method.centralized
                exchange = partial(node.average if centralized else node.mix, step=step)
            self._follow()
            self._state = self._split(self._x, self._state, blocks, exchange)
        if self._x is not node.x_d:
            node.x_d.copy_(self.method.gradient_point(self._x, self._state))
        self._begin_at(step + 1)
        if node.order == "combine-then-adapt":
            node.begin_early(step + 1)
        return loss

    @property
    def gossip_step(self) -> int:
        """Steps made so far; after a fault it goes on where the survivors stopped."""
        return int(self.param_groups[0]["gossip_step"])

    @property
    def model(self) -> Tensor:
        """All parameters in one vector, of which the module's are views."""
        return self._node.x_d

    def _begin_at(self, step: int) -> None:
        for group in self.param_groups:
            group["gossip_step"] = step

    def vectors(self) -> dict[str, Tensor]:
        """x and the method's state, by the names they have in the checkpoint of a run."""
        named = {f"state.{name}": part for name, part in self._state._asdict().items()}
        return {"x": self._x, **named}

    @torch.no_grad()
    def restore(self, vectors: dict[str, Tensor], step: int) -> None:
        """Continue from what `vectors` gave after so many steps."""
        self._node.give_up_exchange()
        for name, mine in self.vectors().items():
            mine.copy_(vectors[name])
        if self._x is not self._node.x_d:
            self._node.x_d.copy_(self.method.gradient_point(self._x, self._state))
        self._begin_at(step)

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

    def _follow(self) -> None:
        """Where push-sum's x is not the model, take along what was done to the model from outside.

        (A model that was loaded, or brought to the average.)
        """
        if self._x is not self._node.x_d:
            self._x += self._node.x_d - self.method.gradient_point(self._x, self._state)

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
        scale = getattr(self, "grad_scale", None)
        if p.grad is None or self._overflowed():
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


def _method(name: str | Method, options: dict[str, Any]) -> Method:
    if isinstance(name, Method):
        for option, value in options.items():
            raise InvalidArgument(option, value, f"is bound in the method {name.name} already")
        return name
    if name not in ALGORITHMS:
        return algorithm(name)  # which refuses it
    for option, value in options.items():
        if option not in ALGORITHMS[name].options:
            raise InvalidArgument(option, value, f"{name} has no such option")
    return algorithm(name, **options)
