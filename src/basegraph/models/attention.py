"""Causal attention forward and backward on queries, keys and values in one array.

torch.nn.functional.scaled_dot_product_attention leaves the backward pass to autograd; here the
operations underneath are called by name, so that a backward pass written by hand can use them.
Queries, keys and values are views of the array that their product wrote: (b, t, 3, h, s).

Shape legend: b sequences, t tokens of each, h heads of size s.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

LARGEST_HEAD = 128
"""Up to which all backends have a backward pass."""
HEAD_MULTIPLE = 8
"""Of which their heads are."""

_cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention
_cudnn_backward = torch.ops.aten._scaled_dot_product_cudnn_attention_backward
_flash = torch.ops.aten._scaled_dot_product_flash_attention
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_backward
_on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_on_cpu_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Attended(NamedTuple):
    """The result y (b, t, h, s), and what the backward pass needs besides."""

    y: Tensor
    qkv: Tensor
    backend: SDPBackend | None
    more: tuple[Any, ...]


def backend_of(heads: int, size: int, device: torch.device) -> SDPBackend | None:
    """cuDNN or flash attention on a GPU, as torch would choose for bf16; None: neither."""
    enabled = (
        torch.backends.cuda.flash_sdp_enabled(),  # type: ignore[no-untyped-call]
        torch.backends.cuda.cudnn_sdp_enabled(),  # type: ignore[no-untyped-call]
    )
    return _backend_of(heads, size, device, enabled)


@lru_cache(maxsize=64)
def _backend_of(
    heads: int, size: int, device: torch.device, enabled: tuple[bool, bool]
) -> SDPBackend | None:
    if size > LARGEST_HEAD or size % HEAD_MULTIPLE:
        return None
    q = torch.empty(1, heads, 64, size, dtype=torch.bfloat16, device=device, requires_grad=True)
    choice = torch._fused_sdp_choice(q, q, q, None, 0.0, True)
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        if choice == backend.value:
            return backend
    return None


def attend(qkv_bt3hs: Tensor) -> Attended:
    """Causal attention."""
    q, k, v = _parts(qkv_bt3hs)
    backend = None
    if qkv_bt3hs.is_cuda:
        backend = backend_of(q.shape[1], q.shape[3], q.device)
        if backend is SDPBackend.CUDNN_ATTENTION:
            y, *more = _cudnn(q, k, v, None, True, 0.0, True)
        else:
            y, *more = _flash(q, k, v, 0.0, True)
        more = more[:7]  # the last is for debugging
    else:
        y, *more = _on_cpu(q, k, v, 0.0, True)
    return Attended(y.transpose(1, 2).contiguous(), qkv_bt3hs, backend, tuple(more))


def attend_backward(attended: Attended, g_bths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients (b, h, t, s) of queries, keys and values."""
    q, k, v = _parts(attended.qkv)
    y, g = attended.y.transpose(1, 2), g_bths.transpose(1, 2)
    if attended.backend is None:
        (levels,) = attended.more
        d_q, d_k, d_v = _on_cpu_backward(g, q, k, v, y, levels, 0.0, True)
        return d_q, d_k, d_v
    levels, first_q, first_k, longest_q, longest_k, seed, offset = attended.more
    lengths = (first_q, first_k, longest_q, longest_k)
    if attended.backend is SDPBackend.CUDNN_ATTENTION:
        d_q, d_k, d_v = _cudnn_backward(
            g, q, k, v, y, levels, seed, offset, None, *lengths, 0.0, True
        )
    else:
        d_q, d_k, d_v = _flash_backward(g, q, k, v, y, levels, *lengths, 0.0, True, seed, offset)
    return d_q, d_k, d_v


def _parts(qkv_bt3hs: Tensor) -> list[Tensor]:
    return [part.transpose(1, 2) for part in qkv_bt3hs.unbind(2)]
