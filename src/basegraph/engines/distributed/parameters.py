"""Parameters as views of one flat buffer, held to that at every step.

`model.double()`, `model.to(device)`, `p.data = ...` and `vector_to_parameters` give a parameter
memory of its own. An optimizer that went on with the buffer would then train something that the
model does not use.
"""

from __future__ import annotations

import torch
from torch import Tensor

from basegraph.engines.distributed.memory import empty_like
from basegraph.errors import BasegraphError, InvalidArgument


class ParametersMoved(BasegraphError):
    """Parameters were converted or moved after the optimizer had been built."""


class FlatParameters:
    """Parameters, and the vector of which they are views.

    >>> p = torch.nn.Parameter(torch.ones(2, 2))
    >>> flat = FlatParameters([p])
    >>> p.data = torch.zeros(2, 2)
    >>> flat.left(), flat.take_back(), flat.x_d
    (True, None, tensor([0., 0., 0., 0.]))
    """

    def __init__(self, parameters: list[Tensor]) -> None:
        kinds = {(p.device, p.dtype) for p in parameters}
        if len(kinds) != 1:
            given = sorted(f"{dtype} on {device}" for device, dtype in kinds)
            raise InvalidArgument("params", given, "must all have one type and be on one device")
        self.parameters = parameters
        self.x_d = empty_like(parameters[0], size=sum(p.numel() for p in parameters))
        sections = torch.split(self.x_d, [p.numel() for p in parameters])
        self._views = [
            _with_own_storage(v.view(p.shape)) for v, p in zip(sections, parameters, strict=True)
        ]
        self._places = [_place(view) for view in self._views]
        self.take_back()

    def left(self) -> bool:
        """Whether a parameter is not in the buffer any more."""
        return [_place(p) for p in self.parameters] != self._places

    def take_back(self) -> None:
        """Make views of the buffer of all parameters again, with the values they have now."""
        for number, (p, view) in enumerate(zip(self.parameters, self._views, strict=True)):
            if _place(p) == _place(view):
                continue
            if (p.dtype, p.device, p.shape) != (view.dtype, view.device, view.shape):
                raise ParametersMoved(
                    f"parameter {number} is {_words(p)} now and was {_words(view)} when the "
                    f"optimizer was built: convert and move the model first, then build the "
                    f"optimizer"
                )
            p.data = view.copy_(p.detach())


def _with_own_storage(view: Tensor) -> Tensor:
    """The same memory, as a tensor whose storage has nothing else.

    safetensors and Hugging Face take tensors of one storage for tied weights, and save one of them.
    """
    return torch.utils.dlpack.from_dlpack(view)


def _place(p: Tensor) -> tuple[int, torch.Size, tuple[int, ...]]:
    """Where a tensor is. (The buffer lives, so nothing else can be at its addresses.)"""
    return p.data_ptr(), p.shape, p.stride()


def _words(p: Tensor) -> str:
    return f"{p.dtype} {tuple(p.shape)} on {p.device}"
