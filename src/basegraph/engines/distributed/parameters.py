"""The parameters of a node and the vector that is exchanged.

`FlatParameters` are views of one flat buffer, and are held to that at every step:
`model.double()`, `model.to(device)`, `p.data = ...` and `vector_to_parameters` give a parameter
memory of its own. An optimizer that went on with the buffer would then train something that the
model does not use.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph.engines.distributed.local_shards import is_sharded
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.memory import empty_like
from basegraph.engines.distributed.options import NodeOptions
from basegraph.errors import BasegraphError, InvalidArgument


class ParametersMoved(BasegraphError):
    """Parameters were converted or moved after the optimizer had been built."""

    def __init__(self, number: int, now: Tensor, before: Tensor) -> None:
        super().__init__(
            f"parameter {number} is {_words(now)} now and was {_words(before)} when the optimizer "
            f"was built: convert and move the model first, then build the optimizer"
        )


class NodeParameters(Protocol):
    """What a node trains, as far as this process holds it.

    `FlatParameters` where a node is a process, `ShardedParameters` where it is several.
    """

    parameters: list[Tensor]
    """As the optimizer has them."""
    x_d: Tensor
    """What this process holds of them, in one vector."""

    @property
    def shards(self) -> list[Tensor]:
        """What this process holds of each parameter."""

    def gather(self) -> None:
        """Bring the vector up to date with the parameters."""

    def scatter(self) -> None:
        """Bring the parameters up to date with the vector."""

    def shown(self, number: int, part: Tensor) -> Tensor:
        """A part of a vector like `x_d` in the form of its parameter, in the same memory."""

    def facts(self) -> dict[str, object]:
        """What must be the same on all nodes, by name."""

    @property
    def is_first(self) -> bool:
        """Whether this process is the first of its node."""

    def total_inside(self, v: Tensor) -> Tensor:
        """The sum of a vector over the processes of this node."""


def node_parameters(
    parameters: list[Tensor], membership: Membership, options: NodeOptions
) -> NodeParameters:
    """The parameters of a node that is one process, or of one that is several.

    Raises:
        InvalidArgument: They are shared by several processes, and something is not made for that.

    """
    if not any(is_sharded(p) for p in parameters):
        return FlatParameters(parameters)
    if membership.group is None:
        raise InvalidArgument("membership", "live", "is for nodes of one process, without DTensors")
    if options.checkpoint is not None:
        raise InvalidArgument(
            "checkpoint",
            str(options.checkpoint),
            "is for nodes of one process; where several share a model, use bg.save_checkpoint",
        )
    from basegraph.engines.distributed.sharded import ShardedParameters

    ranks = dist.get_process_group_ranks(membership.group)
    return ShardedParameters(parameters, ranks, options.model, options.timeout)


class FlatParameters:
    """Parameters, and the vector of which they are views.

    >>> p = torch.nn.Parameter(torch.ones(2, 2))
    >>> flat = FlatParameters([p])
    >>> p.data = torch.zeros(2, 2)
    >>> flat.gather()
    >>> flat.x_d
    tensor([0., 0., 0., 0.])
    """

    def __init__(self, parameters: list[Tensor]) -> None:
        one_kind(parameters)
        refuse_shared_memory(parameters)
        self.parameters = parameters
        self.x_d = empty_like(parameters[0], size=sum(p.numel() for p in parameters))
        sections = torch.split(self.x_d, [p.numel() for p in parameters])
        self._sections = [v.view(p.shape) for v, p in zip(sections, parameters, strict=True)]
        self._places = [_place(_with_own_storage(section)) for section in self._sections]
        self._take_back()

    @property
    def shards(self) -> list[Tensor]:
        """What this process holds of each parameter: all of it."""
        return [p.detach() for p in self.parameters]

    def gather(self) -> None:
        """Bring the vector up to date: take back the parameters that have left it."""
        if self._left():
            self._take_back()

    def scatter(self) -> None:
        """Bring the parameters up to date: they are, being views."""

    def shown(self, number: int, part: Tensor) -> Tensor:
        """A part of a vector like `x_d` in the shape of its parameter, in the same memory."""
        return part.view(self.parameters[number].shape)

    def facts(self) -> dict[str, object]:
        """What must be the same on all nodes: nothing but the parameters' shapes."""
        return {}

    @property
    def is_first(self) -> bool:
        """Whether this process is the first of its node: it is the only one."""
        return True

    def total_inside(self, v: Tensor) -> Tensor:
        """The sum of a vector over the processes of this node: the vector itself."""
        return v

    def _left(self) -> bool:
        """Whether a parameter is not in the buffer any more."""
        return [_place(p) for p in self.parameters] != self._places

    def _take_back(self) -> None:
        """Make views of the buffer of all parameters again, with the values they have now.

        A view is made anew: `share_memory()` and queues of torch.multiprocessing have moved the
        storage of the one before, and whoever holds it in another process keeps it.
        """
        for number, (p, section) in enumerate(zip(self.parameters, self._sections, strict=True)):
            if _place(p) == self._places[number]:
                continue
            if (p.dtype, p.device, p.shape) != (section.dtype, section.device, section.shape):
                raise ParametersMoved(number, p, section)
            section.copy_(p.detach())
            p.data = _with_own_storage(section)


def _with_own_storage(view: Tensor) -> Tensor:
    """The same memory, as a tensor whose storage has nothing else.

    safetensors and Hugging Face take tensors of one storage for tied weights, and save one of them.
    """
    return torch.utils.dlpack.from_dlpack(view)


def _place(p: Tensor) -> tuple[int, torch.Size, tuple[int, ...]]:
    """Where a tensor is. (The buffer lives, so nothing else can be at its addresses.)"""
    return p.data_ptr(), p.shape, p.stride()


def one_kind(parameters: list[Tensor]) -> None:
    """Refuse parameters of several types, or on several devices."""
    kinds = {(p.device, p.dtype) for p in parameters}
    if len(kinds) != 1:
        given = sorted(f"{dtype} on {device}" for device, dtype in kinds)
        raise InvalidArgument("params", given, "must all have one type and be on one device")
    ((device, dtype),) = kinds
    if device.type == "meta" or not (dtype.is_floating_point or dtype.is_complex):
        raise InvalidArgument(
            "params",
            f"{dtype} on {device}",
            "must be floating-point or complex tensors, and not on the meta device",
        )


def refuse_shared_memory(parameters: list[Tensor]) -> None:
    """Refuse parameters of which one lies in another's memory: in one buffer they would part."""
    extents = sorted(
        (p.data_ptr(), p.data_ptr() + p.nbytes, number)
        for number, p in enumerate(parameters)
        if p.numel() and p.is_contiguous()
    )
    for (_, end, first), (start, _, second) in pairwise(extents):
        if start < end:
            raise InvalidArgument(
                "params",
                sorted((first, second)),
                "these parameters share memory, as after a.data = b.data; to tie weights, assign "
                "the parameter itself: a.weight = b.weight",
            )


def _words(p: Tensor) -> str:
    return f"{p.dtype} {tuple(p.shape)} on {p.device}"
