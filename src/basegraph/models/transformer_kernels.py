"""Triton kernels for what a transformer does between its products, forward and backward.

The functions are those of `transformer_steps.py`; here each passes through memory once, in the
type of the products, and computes in float32. Most programs work on some whole rows. Sums over all
rows of a node (gradients of norms' weights) are left by each program for its own rows and added up
by torch.

Triton comes with torch for GPUs; without it `kernels.AVAILABLE` is false.

Shape legend: n nodes, r rows (tokens of a node), w width, b sequences of all nodes, t tokens of
each, h heads of size s, f feed-forward width, v vocabulary, o outputs of a matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from basegraph.models.kernels import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

NUMBERS = 4096
"""Numbers of an array that a program works on at a time, where rows are not longer."""
TOKENS = 32
"""Tokens whose heads a program turns."""


if AVAILABLE:

    @triton.jit
    def _places(ROWS: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr, rows):
        """(rows of this program, columns, which are inside)."""
        row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        column = tl.arange(0, BLOCK)[None, :]
        return row, column, (row < rows) & (column < COUNT)

    @triton.jit
    def _normalize_kernel(
        x, weight, normal, scales, weighted, rows, stride, eps,
        WEIGHT: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        row, column, inside = _places(ROWS, COUNT, BLOCK, rows)
        node = tl.program_id(1).to(tl.int64)
        at = (node * rows + row) * COUNT + column
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(value * value, axis=1, keep_dims=True) / COUNT + eps)
        value *= scale
        tl.store(normal + at, value.to(normal.dtype.element_ty), mask=inside)
        tl.store(scales + node * rows + row, scale, mask=row < rows)
        if WEIGHT:
            value *= tl.load(weight + node * stride + column, mask=column < COUNT, other=0.0)
            tl.store(weighted + at, value.to(weighted.dtype.element_ty), mask=inside)

    @triton.jit
    def _normalize_backward_kernel(
        g, normal, scales, onto, weight, d_x, parts, rows, stride,
        ADD: tl.constexpr, WEIGHT: tl.constexpr, COUNT: tl.constexpr,
        ROWS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        row, column, inside = _places(ROWS, COUNT, BLOCK, rows)
        node = tl.program_id(1).to(tl.int64)
        at = (node * rows + row) * COUNT + column
        slope = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(normal + at, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(scales + node * rows + row, mask=row < rows, other=0.0)
        if WEIGHT:
            part = tl.sum(slope * value, axis=0, keep_dims=True)
            place = (node * tl.num_programs(0) + tl.program_id(0)) * COUNT + column
            tl.store(parts + place, part, mask=column < COUNT)
            slope *= tl.load(weight + node * stride + column, mask=column < COUNT, other=0.0)
        tilt = tl.sum(slope * value, axis=1, keep_dims=True) / COUNT
        result = (slope - value * tilt) * scale
        if ADD:
            result += tl.load(onto + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(d_x + at, result.to(d_x.dtype.element_ty), mask=inside)

    @triton.jit
    def _rotate_kernel(
        d_q, d_k, d_v, qkv, cos, sin, tokens, context, by_b, by_h, by_t,
        BACK: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr,
        ROWS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """Forward: queries and keys of qkv in place. Back: from d_q, d_k, d_v to qkv."""
        token, column, inside = _places(ROWS, HALF, BLOCK, tokens)
        b, t = token // context, token % context
        c = tl.load(cos + t * HALF + column, mask=inside, other=0.0)
        s = tl.load(sin + t * HALF + column, mask=inside, other=0.0)
        packed = qkv + token * (6 * HEADS * HALF) + column
        kind = qkv.dtype.element_ty
        for head in range(HEADS):
            for which in tl.static_range(3 if BACK else 2):
                to = packed + (which * HEADS + head) * (2 * HALF)
                if BACK:
                    place = b * by_b + head * by_h + t * by_t + column
                    at = (d_q if which == 0 else (d_k if which == 1 else d_v)) + place
                else:
                    at = to
                first = tl.load(at, mask=inside, other=0.0)
                second = tl.load(at + HALF, mask=inside, other=0.0)
                if which < 2:
                    u, v = first.to(tl.float32), second.to(tl.float32)
                    if BACK:
                        first, second = u * c + v * s, v * c - u * s
                    else:
                        first, second = u * c - v * s, v * c + u * s
                tl.store(to, first.to(kind), mask=inside)
                tl.store(to + HALF, second.to(kind), mask=inside)

    @triton.jit
    def _swiglu_kernel(
        gate_up, y, d, rows,
        BACK: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """Forward: y = silu(gate) · up. Back: the gradient, of which d is y's, over gate and up."""
        row, column, inside = _places(ROWS, COUNT, BLOCK, rows)
        at = gate_up + row * (2 * COUNT) + column
        gate = tl.load(at, mask=inside, other=0.0).to(tl.float32)
        up = tl.load(at + COUNT, mask=inside, other=0.0).to(tl.float32)
        share = tl.sigmoid(gate)
        kind = gate_up.dtype.element_ty
        if BACK:
            slope = tl.load(d + row * COUNT + column, mask=inside, other=0.0).to(tl.float32)
            d_gate = slope * up * share * (1 + gate * (1 - share))
            tl.store(at, d_gate.to(kind), mask=inside)
            tl.store(at + COUNT, (slope * gate * share).to(kind), mask=inside)
        else:
            tl.store(y + row * COUNT + column, (gate * share * up).to(kind), mask=inside)

    @triton.jit
    def _add_rows_kernel(
        total, tokens, x, rows, stride,
        COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        row, column, inside = _places(ROWS, COUNT, BLOCK, rows)
        node = tl.program_id(1).to(tl.int64)
        token = tl.load(tokens + node * rows + row, mask=row < rows, other=0)
        value = tl.load(x + (node * rows + row) * COUNT + column, mask=inside, other=0.0)
        at = total + node * stride + token * COUNT + column
        tl.atomic_add(at, value.to(total.dtype.element_ty), mask=inside, sem="relaxed")

    @triton.jit
    def _round_kernel(
        matrix, weight, y, count, m_stride, w_stride,
        FOLD: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        node = tl.program_id(1).to(tl.int64)
        inside = at < count
        value = tl.load(matrix + node * m_stride + at, mask=inside, other=0.0)
        if FOLD:
            value *= tl.load(weight + node * w_stride + at % COUNT, mask=inside, other=0.0)
        tl.store(y + node * count + at, value.to(y.dtype.element_ty), mask=inside)

    @triton.jit
    def _unfold_kernel(
        g, matrix, weight, parts, rows, g_stride, m_stride, w_stride,
        COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        row, column, inside = _places(ROWS, COUNT, BLOCK, rows)
        node = tl.program_id(1).to(tl.int64)
        at = g + node * g_stride + row * COUNT + column
        slope = tl.load(at, mask=inside, other=0.0)
        factor = tl.load(matrix + node * m_stride + row * COUNT + column, mask=inside, other=0.0)
        part = tl.sum(slope * factor, axis=0, keep_dims=True)
        place = (node * tl.num_programs(0) + tl.program_id(0)) * COUNT + column
        tl.store(parts + place, part, mask=column < COUNT)
        scale = tl.load(weight + node * w_stride + column, mask=column < COUNT, other=0.0)
        tl.store(at, slope * scale, mask=inside)


def _blocks(count: int) -> dict[str, int]:
    """Of a kernel that works on whole rows of so many numbers."""
    block = triton.next_power_of_2(count)
    rows = max(1, NUMBERS // block)
    return {
        "COUNT": count, "ROWS": rows, "BLOCK": block,
        "num_warps": min(16, max(4, rows * block // 1024)),
    }  # fmt: skip


def normalize(
    x_nrw: Tensor, eps: float, weight_nw: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(x̂, its scale (n, r), x̂ times the weight): RMSNorm, x̂ = x · scale."""
    n, r, w = x_nrw.shape
    normal = torch.empty_like(x_nrw)
    scale = x_nrw.new_empty(n, r, dtype=torch.float32)
    weighted = normal if weight_nw is None else torch.empty_like(x_nrw)
    weight, sizes = (scale if weight_nw is None else weight_nw), _blocks(w)
    _normalize_kernel[(triton.cdiv(r, sizes["ROWS"]), n)](
        x_nrw, weight, normal, scale, weighted, r, weight.stride(0), eps,
        WEIGHT=weight_nw is not None, **sizes,
    )  # fmt: skip
    return normal, scale, weighted


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
    n, r, w = g_nrw.shape
    sizes = _blocks(w)
    programs = triton.cdiv(r, sizes["ROWS"])
    d_x = torch.empty_like(g_nrw) if onto_nrw is None else onto_nrw
    parts = scale_nr if weight_nw is None else scale_nr.new_empty(n, programs, w)
    weight = scale_nr if weight_nw is None else weight_nw
    _normalize_backward_kernel[(programs, n)](
        g_nrw, normal_nrw, scale_nr, d_x, weight, d_x, parts, r, weight.stride(0),
        ADD=onto_nrw is not None, WEIGHT=weight_nw is not None, **sizes,
    )  # fmt: skip
    return d_x, None if weight_nw is None else parts.sum(dim=1)


def rotate_(qkv_bt3hs: Tensor, cos_ts: Tensor, sin_ts: Tensor) -> None:
    """Turn queries and keys by their positions, in place."""
    _rotate([qkv_bt3hs] * 3, qkv_bt3hs, cos_ts, sin_ts, back=False)


def rotate_back(
    d_q_bhts: Tensor, d_k_bhts: Tensor, d_v_bhts: Tensor, cos_ts: Tensor, sin_ts: Tensor
) -> Tensor:
    """d_qkv (b, t, 3, h, s): those of queries and keys turned back."""
    b, h, t, s = d_q_bhts.shape
    parts = [d_q_bhts, d_k_bhts, d_v_bhts]
    strides = {part.stride() for part in parts}
    if len(strides) > 1 or d_q_bhts.stride(3) != 1:
        parts = [part.contiguous() for part in parts]
    result = d_q_bhts.new_empty(b, t, 3, h, s)
    _rotate(parts, result, cos_ts, sin_ts, back=True)
    return result


def _rotate(
    parts: list[Tensor], qkv_bt3hs: Tensor, cos: Tensor, sin: Tensor, *, back: bool
) -> None:
    b, t, _, h, s = qkv_bt3hs.shape
    by_b, by_h, by_t = parts[0].stride()[:3]
    _rotate_kernel[(triton.cdiv(b * t, TOKENS),)](
        *parts, qkv_bt3hs, cos, sin, b * t, t, by_b, by_h, by_t, BACK=back,
        HEADS=h, HALF=s // 2, ROWS=TOKENS, BLOCK=triton.next_power_of_2(s // 2), num_warps=4,
    )  # fmt: skip


def swiglu(gate_up_nrf: Tensor) -> Tensor:
    """silu(gate) · up, (n, r, f)."""
    n, r, both = gate_up_nrf.shape
    y, sizes = gate_up_nrf.new_empty(n, r, both // 2), _blocks(both // 2)
    grid = (triton.cdiv(n * r, sizes["ROWS"]),)
    _swiglu_kernel[grid](gate_up_nrf, y, y, n * r, BACK=False, **sizes)
    return y


def swiglu_backward_(d_nrf: Tensor, gate_up_nrf: Tensor) -> None:
    """Write the gradient of gate and up over them."""
    n, r, f = d_nrf.shape
    sizes = _blocks(f)
    grid = (triton.cdiv(n * r, sizes["ROWS"]),)
    _swiglu_kernel[grid](gate_up_nrf, d_nrf, d_nrf, n * r, BACK=True, **sizes)


def add_rows_(total_nvw: Tensor, tokens_nr: Tensor, rows_nrw: Tensor) -> None:
    """total[i, tokens[i, j]] += rows[i, j]"""
    n, r, w = rows_nrw.shape
    sizes = _blocks(w)
    _add_rows_kernel[(triton.cdiv(r, sizes["ROWS"]), n)](
        total_nvw, tokens_nr, rows_nrw, r, total_nvw.stride(0), **sizes
    )


def rounded(matrix_now: Tensor, dtype: torch.dtype, weight_nw: Tensor | None = None) -> Tensor:
    """The matrix M, or M·diag(weight), in the type of the products, one node after another."""
    n, o, w = matrix_now.shape
    y = matrix_now.new_empty(n, o, w, dtype=dtype)
    weight = matrix_now if weight_nw is None else weight_nw
    _round_kernel[(triton.cdiv(o * w, NUMBERS), n)](
        matrix_now, weight, y, o * w, matrix_now.stride(0), weight.stride(0),
        FOLD=weight_nw is not None, COUNT=w, BLOCK=NUMBERS, num_warps=4,
    )  # fmt: skip
    return y


def unfold_(g_now: Tensor, matrix_now: Tensor, weight_nw: Tensor, d_weight_nw: Tensor) -> None:
    """Of a matrix M·diag(weight), turn the gradient into M's in place, and write the weight's."""
    n, o, w = g_now.shape
    sizes = _blocks(w)
    programs = triton.cdiv(o, sizes["ROWS"])
    parts = g_now.new_empty(n, programs, w)
    strides = (g_now.stride(0), matrix_now.stride(0), weight_nw.stride(0))
    _unfold_kernel[(programs, n)](g_now, matrix_now, weight_nw, parts, o, *strides, **sizes)
    torch.sum(parts, dim=1, out=d_weight_nw)
