"""What a transformer does between its products, forward and backward, by operations of torch.

`transformer_kernels.py` has the same functions for GPUs, each of which passes through memory once.
Sums and rotations are computed in float32 or wider, whatever the type of the arrays.

Shape legend: n nodes, r rows (tokens of a node), w width, b sequences of all nodes, t tokens of
each, h heads of size s, f feed-forward width, v vocabulary, o outputs of a matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from basegraph.models.gpt import rotate


def normalize(
    x_nrw: Tensor, eps: float, weight_nw: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(x̂, its scale (n, r), x̂ times the weight): RMSNorm, x̂ = x · scale."""
    x = _wide(x_nrw)
    scale = torch.rsqrt(x.square().mean(dim=-1) + eps)
    normal = x * scale[..., None]
    weighted = normal if weight_nw is None else normal * weight_nw[:, None]
    return normal.to(x_nrw.dtype), scale, weighted.to(x_nrw.dtype)


def normalize_backward(
    g_nrw: Tensor,
    normal_nrw: Tensor,
    scale_nr: Tensor,
    onto_nrw: Tensor | None = None,
    weight_nw: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """(d_x, d_weight) for the slope g of x̂ or, with a weight, of x̂ times it.

    d_x is added to `onto`, which is overwritten, if there is one.
    """
    g, normal = _wide(g_nrw), _wide(normal_nrw)
    d_weight = None
    if weight_nw is not None:
        d_weight = (g * normal).sum(dim=1)
        g = g * weight_nw[:, None]
    tilt = (g * normal).mean(dim=-1, keepdim=True)
    d_x = (g - normal * tilt) * scale_nr[..., None]
    if onto_nrw is None:
        return d_x.to(g_nrw.dtype), d_weight
    return onto_nrw.copy_(onto_nrw + d_x), d_weight


def rotate_(qkv_bt3hs: Tensor, cos_ts: Tensor, sin_ts: Tensor) -> None:
    """Turn queries and keys by their positions, in place."""
    both = qkv_bt3hs[:, :, :2]
    both.copy_(rotate(both, cos_ts[:, None, None], sin_ts[:, None, None]))


def rotate_back(
    d_q_bhts: Tensor, d_k_bhts: Tensor, d_v_bhts: Tensor, cos_ts: Tensor, sin_ts: Tensor
) -> Tensor:
    """d_qkv (b, t, 3, h, s): those of queries and keys turned back."""
    turned = (rotate(d, cos_ts, -sin_ts) for d in (d_q_bhts, d_k_bhts))
    return torch.stack([d.transpose(1, 2) for d in (*turned, d_v_bhts)], dim=2)


def swiglu(gate_up_nrf: Tensor) -> Tensor:
    """silu(gate) · up, (n, r, f)."""
    gate, up = _wide(gate_up_nrf).chunk(2, dim=-1)
    return (functional.silu(gate) * up).to(gate_up_nrf.dtype)


def swiglu_backward_(d_nrf: Tensor, gate_up_nrf: Tensor) -> None:
    """Write the gradient of gate and up over them."""
    gate, up = _wide(gate_up_nrf).chunk(2, dim=-1)
    d, share = _wide(d_nrf), gate.sigmoid()
    d_gate = d * up * share * (1 + gate * (1 - share))
    gate_up_nrf.copy_(torch.cat([d_gate, d * gate * share], dim=-1))


def add_rows_(total_nvw: Tensor, tokens_nr: Tensor, rows_nrw: Tensor) -> None:
    """total[i, tokens[i, j]] += rows[i, j]"""
    for total, tokens, rows in zip(total_nvw, tokens_nr, rows_nrw, strict=True):
        total.index_add_(0, tokens, rows.to(total.dtype))


def rounded(matrix_now: Tensor, dtype: torch.dtype, weight_nw: Tensor | None = None) -> Tensor:
    """The matrix M, or M·diag(weight), in the type of the products, one node after another."""
    folded = matrix_now if weight_nw is None else matrix_now * weight_nw[:, None]
    return folded.to(dtype).contiguous()


def unfold_(g_now: Tensor, matrix_now: Tensor, weight_nw: Tensor, d_weight_nw: Tensor) -> None:
    """Of a matrix M·diag(weight), turn the gradient into M's in place, and write the weight's."""
    torch.sum(g_now * matrix_now, dim=1, out=d_weight_nw)
    g_now.mul_(weight_nw[:, None])


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
