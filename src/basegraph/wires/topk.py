"""Top-k: the largest values of every group, with their places.

Groups of at most 256 values have places of one byte, and the largest of each are found in one pass;
the largest of the whole vector would need four bytes each and a selection among all. What is kept
is no less than the same share of the squared norm: |v - Q(v)|² ≤ (1 - δ)|v|², δ the fraction.

Shape legend: v (..., d); values and places (..., groups · kept).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor
from torch.nn.functional import pad

from basegraph.algorithms.options import share
from basegraph.specs import spec_of
from basegraph.wires.contract import Layout, Parts, Wire

GROUP = 256
"""The most values of a group whose places take one byte."""
STEP = 0.5
"""With 1.0 nodes that hear 8 others or more at once can run away from each other."""
ONE_OF = 0.1
"""Up to this fraction a group has one value that is sent, which is quickest to find."""


def topk(fraction: float = 0.01, step: float = STEP) -> Wire:
    """The largest values of the difference to what the neighbor knows, with their places.

    Args:
        fraction: How many of the values, in (0, 1].
        step: How far a node moves towards what it knows of a neighbor, in (0, 1].

    """
    share(fraction=fraction, step=step)
    options = {"fraction": fraction} | ({} if step == STEP else {"step": step})
    return Wire(spec_of("topk", options), codec=TopK(fraction), links=True, step=step)


@dataclass(frozen=True)
class TopK:
    """The codec; see the module.

    Args:
        fraction: How many of the values are sent, at least.

    Example:
        >>> codec = TopK(0.5)
        >>> parts = codec.encode(torch.tensor([1.0, -4.0, 0.0, 3.0]))
        >>> codec.decode(parts, 4, torch.float32).tolist()
        [0.0, -4.0, 0.0, 3.0]

    """

    fraction: float

    def layout(self, size: int, dtype: torch.dtype) -> Layout:
        """Values as they are, then places within their groups."""
        group, kept, groups = self._groups(size)
        return (dtype, groups * kept), (_places(group), groups * kept)

    def encode(self, v: Tensor) -> Parts:
        """Values and places, group by group."""
        group, kept, groups = self._groups(v.shape[-1])
        grouped = pad(v, (0, groups * group - v.shape[-1])).reshape(*v.shape[:-1], groups, group)
        sizes = grouped.abs()
        if kept == 1:
            places = sizes.argmax(-1, keepdim=True)
        else:
            places = sizes.topk(kept, sorted=False).indices
        return (
            grouped.gather(-1, places).flatten(-2),
            places.to(_places(group)).flatten(-2),
        )

    def decode(self, parts: Parts, size: int, dtype: torch.dtype) -> Tensor:
        """The values at their places, zeros elsewhere."""
        group, kept, groups = self._groups(size)
        values, places = (part.reshape(*part.shape[:-1], groups, kept) for part in parts)
        v = values.new_zeros((*values.shape[:-1], group), dtype=dtype)
        return v.scatter_(-1, places.long(), values.to(dtype)).flatten(-2)[..., :size]

    def _groups(self, size: int) -> tuple[int, int, int]:
        """Values of a group, how many of them are kept, and how many groups there are."""
        kept = 1 if self.fraction <= ONE_OF else int(GROUP * self.fraction)
        group = int(kept / self.fraction + 1e-9)
        if size < group:
            group, kept = max(1, size), max(1, ceil(self.fraction * size))
        return group, kept, -(-size // group)


def _places(group: int) -> torch.dtype:
    return torch.uint8 if group <= GROUP else torch.int32
