"""Nested dictionaries and lists as JSON and tensors: what nodes send each other. No pickle."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

TENSOR, TUPLE, ITEMS = "tensor", "tuple", "items"


def pack(content: Any) -> tuple[str, list[Tensor]]:
    """What holds tensors, numbers and texts, as JSON and the tensors.

    Args:
        content: Dictionaries, lists and tuples of tensors, numbers, texts, booleans and None.

    Returns:
        JSON that says where which tensor belongs, of what type and shape; the tensors, on the CPU
        and contiguous: themselves where they are so already, no copies.

    Raises:
        TypeError: There is something else in it.

    Example:
        >>> text, tensors = pack({"x": torch.ones(2), 0: (0.9, None)})
        >>> unpack(text, tensors)
        {'x': tensor([1., 1.]), 0: (0.9, None)}

    """
    tensors: list[Tensor] = []
    return json.dumps(_plain(content, tensors)), tensors


def unpack(text: str, tensors: list[Tensor]) -> Any:
    """What `pack` has made this of."""
    return _nested(json.loads(text), tensors)


def empty_like(text: str) -> list[Tensor]:
    """Tensors of the types and shapes that `pack` has written down, to receive into.

    Example:
        >>> [t.shape for t in empty_like(pack([torch.zeros(3, 2)])[0])]
        [torch.Size([3, 2])]

    """
    forms: list[dict[str, Any]] = []
    _find_forms(json.loads(text), forms)
    return [torch.empty(form["shape"], dtype=getattr(torch, form["dtype"])) for form in forms]


def _plain(value: Any, tensors: list[Tensor]) -> Any:
    """The value with `{"tensor": ...}` for a tensor; tuples and dictionaries are marked as such."""
    if isinstance(value, Tensor):
        tensors.append(value.detach().cpu().contiguous())
        dtype = str(value.dtype).removeprefix("torch.")
        return {TENSOR: {"number": len(tensors) - 1, "dtype": dtype, "shape": list(value.shape)}}
    if isinstance(value, dict):  # JSON has texts alone as keys; optimizers number parameters
        return {ITEMS: [[_plain(k, tensors), _plain(v, tensors)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {TUPLE: [_plain(v, tensors) for v in value]}
    if isinstance(value, list):
        return [_plain(v, tensors) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} cannot be sent to another node: {value!r:.80}")


def _nested(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, list):
        return [_nested(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    if TENSOR in value:
        return tensors[value[TENSOR]["number"]]
    if TUPLE in value:
        return tuple(_nested(v, tensors) for v in value[TUPLE])
    return {_nested(k, tensors): _nested(v, tensors) for k, v in value[ITEMS]}


def _find_forms(value: Any, forms: list[dict[str, Any]]) -> None:
    """The forms of all tensors, in their order."""
    if isinstance(value, dict) and TENSOR in value:
        forms.append(value[TENSOR])
    elif isinstance(value, dict):
        _find_forms(next(iter(value.values())), forms)
    elif isinstance(value, list):
        for item in value:
            _find_forms(item, forms)
