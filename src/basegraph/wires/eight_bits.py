"""Eight bits per value and a scale per block of values.

A block is divided by s = max |v| / L, where L is the largest number of the eight-bit type, so that
its largest value is met exactly. For int8 the others are off by s/2 at most; for fp8 (e4m3), by
1/16 of themselves, or by s/1024 where they are small.

Shape legend: v (..., d); scales (..., blocks); levels (..., d).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from basegraph.errors import InvalidArgument
from basegraph.specs import spec_of
from basegraph.topologies.core.integers import at_least
from basegraph.wires.contract import Layout, Parts, Wire

BLOCK = 256
"""Values that share a scale: 4 bytes of 260."""
CACHED = 2**16
"""Numbers of all vectors together whose temporaries fit into a core's cache."""
LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
SMALLEST_SCALE = torch.finfo(torch.float32).tiny
"""Blocks whose scale would be smaller are sent as zeros."""


def int8(block: int = BLOCK, links: bool = False) -> Wire:
    """Eight bits per value, an integer times a scale per block: a quarter of the bytes.

    Args:
        block: How many values share a scale.
        links: Whether to send differences to what the neighbor knows, which takes two vectors of
            memory per neighbor, and leaves an error that vanishes as nodes agree.

    """
    return _wire("int8", torch.int8, block, links)


def fp8(block: int = BLOCK, links: bool = False) -> Wire:
    """Eight bits per value, a float8 (e4m3) times a scale per block.

    Args:
        block: How many values share a scale.
        links: Whether to send differences to what the neighbor knows, as for `int8`.

    """
    return _wire("fp8", torch.float8_e4m3fn, block, links)


def _wire(name: str, kind: torch.dtype, block: int, links: bool) -> Wire:
    at_least(1, below=2**31, block=block)
    if not isinstance(links, bool):
        raise InvalidArgument("links", links, "must be true or false")
    options: dict[str, object] = {} if block == BLOCK else {"block": block}
    if links:
        options["links"] = True
    return Wire(spec_of(name, options), codec=EightBits(kind, block), links=links)


@dataclass(frozen=True)
class EightBits:
    """The codec; see the module.

    Args:
        kind: torch.int8 or torch.float8_e4m3fn.
        block: How many values share a scale.

    Example:
        >>> codec = EightBits(torch.int8, block=2)
        >>> scales, levels = codec.encode(torch.tensor([1.0, 127.0, -0.5]))
        >>> levels.tolist()
        [1, 127, -127]
        >>> codec.decode((scales, levels), 3, torch.float32).tolist()
        [1.0, 127.0, -0.5]

    """

    kind: torch.dtype
    block: int

    def layout(self, size: int, dtype: torch.dtype) -> Layout:
        """Scales in float32, then a byte per value."""
        return (torch.float32, -(-size // self.block)), (self.kind, size)

    def encode(self, v: Tensor) -> Parts:
        """Scales and levels; a value that is not finite makes its block's scale so."""
        *lead, size = v.shape
        scales = v.new_empty((*lead, -(-size // self.block)), dtype=torch.float32)
        levels = v.new_empty((*lead, size), dtype=self.kind)
        for blocks, where in self._in_blocks(v):
            values = _rows(v[..., where], self.block)
            scale = values.abs().amax(-1).float().div_(LARGEST[self.kind])
            scale.masked_fill_(scale < SMALLEST_SCALE, 1.0)
            scales[..., blocks] = scale
            scaled = values / scale.unsqueeze(-1)
            if self.kind == torch.int8:
                scaled.round_()
            levels[..., where] = scaled.flatten(-2).to(self.kind)
        return scales, levels

    def decode(self, parts: Parts, size: int, dtype: torch.dtype) -> Tensor:
        """Levels times scales."""
        scales, levels = parts
        v = levels.to(dtype)
        for blocks, where in self._in_blocks(v):
            values = _rows(v[..., where], self.block)
            values.mul_(scales[..., blocks].to(dtype).unsqueeze(-1))
        return v

    def _in_blocks(self, v: Tensor) -> Iterator[tuple[slice, slice]]:
        """The whole blocks, then the shorter last one: which blocks, and which values they hold.

        On a CPU they come in pieces whose temporaries stay in the cache.
        """
        size, whole = v.shape[-1], v.shape[-1] // self.block
        most = max(1, CACHED * size // max(1, v.numel()) // self.block)
        step = most if v.device.type == "cpu" else max(1, whole)
        for first in range(0, whole, step):
            last = min(first + step, whole)
            yield slice(first, last), slice(first * self.block, last * self.block)
        if size % self.block:
            yield slice(whole, whole + 1), slice(whole * self.block, size)


def _rows(v: Tensor, block: int) -> Tensor:
    """A view (..., blocks, block) of whole blocks, or of one that is shorter."""
    return v.view(*v.shape[:-1], -1, min(block, v.shape[-1]))
