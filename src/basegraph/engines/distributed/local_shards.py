"""What this process holds of a tensor: all of it, unless the tensor is a `DTensor`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether a tensor is a `DTensor`, spread over the processes of a `DeviceMesh`.

    >>> import torch
    >>> is_sharded(torch.ones(2))
    False
    """
    # Importing it takes a second, and whoever has made a DTensor has imported it.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor: the same memory, outside of autograd.

    >>> import torch
    >>> local(torch.nn.Parameter(torch.ones(2)))
    tensor([1., 1.])
    """
    if is_sharded(tensor):
        return tensor._local_tensor.detach()
    return tensor.detach()


def local_gradient(parameter: Tensor) -> Tensor | None:
    """What this process holds of a parameter's gradient, sharded as the parameter is."""
    grad = parameter.grad
    if grad is None:
        return None
    if is_sharded(grad) and is_sharded(parameter) and grad.placements != parameter.placements:
        grad = grad.redistribute(
            placements=parameter.placements
        )  # tensor parallelism's partial sums
    return local(grad)
