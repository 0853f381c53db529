"""What a wire is: how a vector travels from a node to its neighbors.

Shape legend: v (..., d), one vector or one per node; the parts of a message (..., count) likewise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from basegraph.wires.coordinates import Coordinates

Parts = tuple[Tensor, ...]
"""What a message holds, one tensor for each part of its layout."""
Layout = tuple[tuple[torch.dtype, int], ...]
"""The parts of a message: their types and how many values they have; the widest types first."""


class Codec(Protocol):
    """Packs vectors into fewer bytes; what is lost is lost in the same way at every node."""

    def layout(self, size: int, dtype: torch.dtype) -> Layout:
        """The parts of a message with a vector of this size and type."""

    def encode(self, v: Tensor) -> Parts:
        """The parts of the message with each vector."""

    def decode(
        self, parts: Parts, size: int, dtype: torch.dtype, out: Tensor | None = None
    ) -> Tensor:
        """The vectors of this size and type that the messages stand for, in `out` if given."""


@dataclass(frozen=True)
class Wire:
    """How vectors are sent; an entry of `WIRES` makes one. It has a codec or coordinates."""

    spec: str
    """How the catalogue is asked for it."""
    codec: Codec | None = None
    """Values are packed into fewer bytes, with an error."""
    coordinates: Coordinates | None = None
    """Some of the values are sent, as they are."""
    links: bool = False
    """Whether what is packed is the difference to what the neighbor knows (`links.py`)."""
    step: float = 1.0
    """How far a node moves towards what it knows of a neighbor, as a share of the round's way."""
    dtype: torch.dtype | None = None
    """Where every value is sent: in which floating-point type. None for wires that do more."""

    @property
    def compresses(self) -> bool:
        """Whether it does more than convert values to another floating-point type."""
        return self.dtype is None

    def keeps(self, dtype: torch.dtype) -> bool:
        """Whether vectors of this type are sent as they are: the wire's is as wide or wider."""
        return self.dtype is not None and (
            self.dtype == dtype or self.dtype.itemsize > dtype.itemsize
        )

    def message_bytes(self, size: int, dtype: torch.dtype = torch.float32) -> int:
        """Bytes of the message with a vector, exactly; with `links`, of all but a link's first.

        Args:
            size: How many numbers the vector has.
            dtype: Their type.

        """
        if self.keeps(dtype):
            return size * dtype.itemsize
        if self.coordinates is not None:
            return self.coordinates.count(size) * dtype.itemsize
        assert self.codec is not None
        return layout_bytes(self.codec.layout(size, dtype))


def layout_bytes(layout: Layout) -> int:
    """Bytes of a message.

    >>> layout_bytes(((torch.float32, 2), (torch.int8, 300)))
    308
    """
    return sum(dtype.itemsize * count for dtype, count in layout)


def unpacked(message: Tensor, layout: Layout) -> Parts:
    """The parts of a message as views of its bytes.

    Args:
        message: The bytes, in one vector.
        layout: What they hold.

    Example:
        >>> scales, levels = unpacked(torch.zeros(7, dtype=torch.uint8), ((torch.float32, 1),
        ...                                                               (torch.int8, 3)))
        >>> scales.shape, levels.shape
        (torch.Size([1]), torch.Size([3]))

    """
    sections = torch.split(message, [dtype.itemsize * count for dtype, count in layout])
    return tuple(part.view(dtype) for part, (dtype, _) in zip(sections, layout, strict=True))
