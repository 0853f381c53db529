"""Memory for vectors that are walked through at every step.

Linux hands out pages of 4 KiB unless it is asked for larger ones, and looking up thousands of them
costs a good part of a pass over a large vector: with pages of 2 MiB such a pass takes about a
quarter less time on a virtual machine.
"""

from __future__ import annotations

import mmap
from contextlib import suppress

import torch
from torch import Tensor

HUGE_PAGE = 2**21


@torch.inference_mode(False)  # or memory that is kept could be written in inference mode only
def empty_like(v: Tensor, size: int | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """A vector like v (of this size and type, if given), in large pages where that is possible.

    >>> empty_like(torch.zeros(3), size=5).shape
    torch.Size([5])
    """
    dtype = dtype or v.dtype
    size = v.numel() if size is None else size
    room = size * dtype.itemsize
    if v.device.type != "cpu" or room < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(size, dtype=dtype, device=v.device)
    pages = mmap.mmap(-1, room + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without them: the pages are as good as any
        pages.madvise(mmap.MADV_HUGEPAGE)
    first = -torch.frombuffer(pages, dtype=torch.uint8).data_ptr() % HUGE_PAGE
    return torch.frombuffer(pages, dtype=dtype, count=size, offset=first)


@torch.inference_mode(False)
def host_memory(v: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A vector like v (of this type, if given) in the host's memory, for copies from a GPU.

    >>> host_memory(torch.zeros(3)).device
    device(type='cpu')
    """
    pinned = v.device.type == "cuda"
    return torch.empty(v.numel(), dtype=dtype or v.dtype, pin_memory=pinned)


def copy_of(v: Tensor) -> Tensor:
    """The same vector in memory of its own."""
    return empty_like(v).copy_(v)
