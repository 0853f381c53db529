"""Parameters that several processes of a node share as `DTensor`s, each with its own shards.

FSDP2 owns the memory of the shards, so they stay where they are. The vector that is exchanged is a
copy: gathered from the shards before a step, and put back when the exchange is complete.
"""

from __future__ import annotations

import gc
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import distributed_c10d
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.utils.dlpack import from_dlpack

from basegraph.engines.distributed.local_shards import is_sharded, local
from basegraph.engines.distributed.memory import empty_like
from basegraph.engines.distributed.parameters import ParametersMoved, one_kind
from basegraph.errors import InvalidArgument


class ShardedParameters:
    """Parameters of a node of several processes, and the vector of this process's shards.

    Args:
        parameters: `DTensor`s, all on meshes inside the node.
        nodes: The global ranks of the processes with which this one exchanges, itself among them.
        model: The module; without it the FSDP modules of these parameters are searched for.
        timeout: Seconds after which collectives inside the node give up.

    Raises:
        InvalidArgument: Some are no `DTensor`s, or a mesh reaches over several nodes.

    """

    def __init__(
        self,
        parameters: list[Tensor],
        nodes: list[int],
        model: nn.Module | None,
        timeout: float,
    ) -> None:
        self.parameters = parameters
        sharded = [p for p in parameters if is_sharded(p)]
        if len(sharded) < len(parameters):
            raise InvalidArgument(
                "params",
                f"{len(sharded)} DTensors and {len(parameters) - len(sharded)} plain tensors",
                "mix DTensors and plain tensors: call fully_shard on the whole model, too",
            )
        one_kind(self.shards)
        self._meshes = list(dict.fromkeys(p.device_mesh for p in sharded))
        for mesh in self._meshes:
            ranks = mesh.mesh.flatten().tolist()
            if len(set(ranks) & set(nodes)) > 1:
                raise InvalidArgument(
                    "params",
                    f"DTensors over the ranks {ranks}",
                    f"must be inside one node, and the nodes are the ranks {nodes}: pass "
                    f'mesh=mesh["node"], and call fully_shard with mesh["shard"]',
                )
        shards = self.shards
        sizes = [shard.numel() for shard in shards]
        self.x_d = empty_like(shards[0], size=sum(sizes))
        sections = torch.split(self.x_d, sizes)
        self._sections = [v.view(p.shape) for v, p in zip(sections, shards, strict=True)]
        self._modules = _fsdp_modules(parameters, model)
        self._groups = [group for mesh in self._meshes for group in mesh.get_all_groups()]
        for group in dict.fromkeys(self._groups):
            _wait_no_longer(group, timeout)
        self.gather()

    @property
    def shards(self) -> list[Tensor]:
        """What this process holds of each parameter."""
        return [local(p) for p in self.parameters]

    @torch.no_grad()
    def gather(self) -> None:
        """Copy the shards into the vector."""
        self._reshard()
        shards = self.shards
        for number, (shard, section) in enumerate(zip(shards, self._sections, strict=True)):
            if (shard.dtype, shard.device, shard.shape) != (
                section.dtype,
                section.device,
                section.shape,
            ):
                raise ParametersMoved(number, shard, section)
            section.copy_(shard)

    @torch.no_grad()
    def scatter(self) -> None:
        """Copy the vector into the shards; modules that hold whole parameters let go of them."""
        for section, shard in zip(self._sections, self.shards, strict=True):
            shard.copy_(section)
        self._reshard()

    def shown(self, number: int, part: Tensor) -> Tensor:
        """A part of a vector like `x_d` as a `DTensor` that is sharded as its parameter is."""
        p = self.parameters[number]
        assert isinstance(p, DTensor)
        # The same memory without an offset: torch cannot copy DTensors whose local part has one.
        at_zero = from_dlpack(part.view(p._local_tensor.shape))
        return DTensor.from_local(
            at_zero,
            p.device_mesh,
            p.placements,
            run_check=False,
            shape=p.shape,
            stride=p.stride(),
        )

    def facts(self) -> dict[str, object]:
        """What must be the same on all nodes, by name."""
        places = [(mesh.get_coordinate(), tuple(mesh.mesh.shape)) for mesh in self._meshes]
        placements = [p.placements for p in self.parameters if isinstance(p, DTensor)]
        shapes = [tuple(shard.shape) for shard in self.shards]
        return {"shards": (shapes, placements), "place in the node": places}

    @property
    def is_first(self) -> bool:
        """Whether this process is the first of its node."""
        return all(not any(mesh.get_coordinate() or ()) for mesh in self._meshes)

    def total_inside(self, v: Tensor) -> Tensor:
        """The sum of a vector over the processes of this node."""
        for group in max(self._meshes, key=lambda mesh: mesh.ndim).get_all_groups():
            dist.all_reduce(v, group=group)
        return v

    def _reshard(self) -> None:
        """Have the modules use the shards: after a forward pass alone some hold whole parameters.

        They would go on with those, whatever the shards have become.
        """
        for module in self._modules:
            module.reshard()


def _fsdp_modules(parameters: list[Tensor], model: nn.Module | None) -> list[FSDPModule]:
    """The FSDP modules that have these parameters, in the model or else anywhere."""
    ours = {id(p) for p in parameters}
    found = gc.get_objects() if model is None else list(model.modules())
    modules = [m for m in found if issubclass(type(m), FSDPModule) and isinstance(m, nn.Module)]
    return [m for m in modules if any(id(p) in ours for p in m.parameters())]  # type: ignore[misc]


def _wait_no_longer(group: Any, timeout: float) -> None:
    """Have the collectives of a group give up after so many seconds, unless they do before."""
    limit = timedelta(seconds=timeout)
    backends = {group._get_backend(device) for device in group._device_types}
    if any(backend.options._timeout > limit for backend in backends):
        distributed_c10d._set_pg_timeout(limit, group)
