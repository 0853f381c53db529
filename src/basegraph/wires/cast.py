"""Floating-point types on the wire: every value, rounded."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from basegraph.wires.contract import Layout, Parts, Wire

NAMES = {torch.bfloat16: "bf16"}
"""What types are called, where it is not as torch calls them."""


def float32() -> Wire:
    """Every value as a float32: 4 bytes."""
    return cast(torch.float32)


def bf16() -> Wire:
    """Every value as a bfloat16: 2 bytes, 8 bits of precision."""
    return cast(torch.bfloat16)


def float16() -> Wire:
    """Every value as a float16: 2 bytes, 11 bits of precision, up to 65504."""
    return cast(torch.float16)


def cast(dtype: torch.dtype) -> Wire:
    """The wire of a floating-point type.

    >>> cast(torch.bfloat16).spec
    'bf16'
    """
    name = NAMES.get(dtype, str(dtype).removeprefix("torch."))
    return Wire(name, codec=Cast(dtype), dtype=dtype)


@dataclass(frozen=True)
class Cast:
    """The codec.

    Args:
        kind: The type.

    """

    kind: torch.dtype

    def layout(self, size: int, dtype: torch.dtype) -> Layout:
        """Every value."""
        return ((self.kind, size),)

    def encode(self, v: Tensor) -> Parts:
        """The values, rounded."""
        return (v.to(self.kind),)

    def decode(
        self, parts: Parts, size: int, dtype: torch.dtype, out: Tensor | None = None
    ) -> Tensor:
        """The values, which are exact in a wider type."""
        return parts[0].to(dtype) if out is None else out.copy_(parts[0])
