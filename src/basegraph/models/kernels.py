"""Triton kernels for convolutions with a different filter for every node.

`columns` writes out the shifted copies of an image that a filter meets, for one matrix product. A
convolution with few channels does so little arithmetic that writing them out would cost more than
everything else: `small_convolution` reads the image where it lies.

Triton comes with torch for GPUs; without it `AVAILABLE` is false.

Shape legend: n nodes, c channels, o outputs, b samples, h × w pixels, kh × kw taps, p the pixels
of all samples. Images are padded already.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

SMALL = 4096
"""Weights of a filter up to which `small_convolution` is the quicker way."""
PIXELS = 128
"""Pixels that a program works on at a time."""
TAPS = 32
"""Taps, of all channels, that a program works on at a time."""
PROGRAMS = 1024
"""Programs that fill a device."""


def after(size: int, taps: int, stride: int = 1) -> int:
    """Pixels in a row of the result."""
    return (size - taps) // stride + 1


if AVAILABLE:

    @triton.jit
    def _columns_kernel(
        x, y, samples, height, width, out_height, out_width,
        KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """y[c, i, j, p] = x[c, p moved by (i, j)], one plane (node and channel), some pixels."""
        plane = tl.program_id(1).to(tl.int64)
        pixels = samples * out_height * out_width
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        sample = place // (out_height * out_width)
        row = place // out_width % out_height * STRIDE
        at = (sample * height + row) * width + place % out_width * STRIDE
        x += plane * samples * height * width
        y += plane * KH * KW * pixels
        for i in tl.static_range(KH):
            for j in tl.static_range(KW):
                value = tl.load(x + at + i * width + j, mask=place < pixels, other=0.0)
                tl.store(y + (i * KW + j) * pixels + place, value, mask=place < pixels)

    @triton.jit
    def _correlate_kernel(
        x, w, y, samples, height, width, out_height, out_width,
        CHANNELS: tl.constexpr, OUTPUTS: tl.constexpr, PADDED: tl.constexpr, KH: tl.constexpr,
        KW: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """y[o, p] = Σ w[o, c, i, j] x[c, p moved by (i, j)], one node and some pixels."""
        node = tl.program_id(1).to(tl.int64)
        taps = CHANNELS * KH * KW
        pixels = samples * out_height * out_width
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        sample = place // (out_height * out_width)
        row = place // out_width % out_height
        at = (sample * height + row) * width + place % out_width
        output = tl.arange(0, PADDED)
        x += node * CHANNELS * samples * height * width
        w += node * OUTPUTS * taps
        total = tl.zeros((PADDED, BLOCK), tl.float32)
        for first in tl.static_range(0, CHANNELS * KH * KW, TAPS):
            tap = first + tl.arange(0, TAPS)
            shift = (tap // (KH * KW) * samples * height + tap // KW % KH) * width + tap % KW
            inside = (tap[:, None] < taps) & (place[None, :] < pixels)
            value = tl.load(x + shift[:, None] + at[None, :], mask=inside, other=0.0)
            keep = (output[:, None] < OUTPUTS) & (tap[None, :] < taps)
            factor = tl.load(w + output[:, None] * taps + tap[None, :], mask=keep, other=0.0)
            total = tl.dot(factor, value, total, input_precision=PRECISION)
        y += node * OUTPUTS * pixels
        keep = (output[:, None] < OUTPUTS) & (place[None, :] < pixels)
        tl.store(y + output[:, None] * pixels + place[None, :], total, mask=keep)

    @triton.jit
    def _filter_gradient_kernel(
        x, g, d, samples, height, width, out_height, out_width, span,
        CHANNELS: tl.constexpr, OUTPUTS: tl.constexpr, PADDED: tl.constexpr, KH: tl.constexpr,
        KW: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """d[o, (c, i, j)] = Σ g[o, p] x[c, p moved by (i, j)], one node and a span of pixels."""
        node = tl.program_id(2).to(tl.int64)
        part = tl.program_id(1)
        taps = CHANNELS * KH * KW
        tap = tl.program_id(0) * TAPS + tl.arange(0, TAPS)
        shift = (tap // (KH * KW) * samples * height + tap // KW % KH) * width + tap % KW
        pixels = samples * out_height * out_width
        output = tl.arange(0, PADDED)
        x += node * CHANNELS * samples * height * width
        g += node * OUTPUTS * pixels
        total = tl.zeros((PADDED, TAPS), tl.float32)
        first = part * span
        last = tl.minimum(first + span, pixels)
        for begin in range(first, last, BLOCK):
            place = begin + tl.arange(0, BLOCK)
            sample = place // (out_height * out_width)
            row = place // out_width % out_height
            at = (sample * height + row) * width + place % out_width
            inside = (place[:, None] < last) & (tap[None, :] < taps)
            value = tl.load(x + at[:, None] + shift[None, :], mask=inside, other=0.0)
            keep = (output[:, None] < OUTPUTS) & (place[None, :] < last)
            slope = tl.load(g + output[:, None] * pixels + place[None, :], mask=keep, other=0.0)
            total = tl.dot(slope, value, total, input_precision=PRECISION)
        d += (node * tl.num_programs(1) + part) * OUTPUTS * taps
        keep = (output[:, None] < OUTPUTS) & (tap[None, :] < taps)
        tl.store(d + output[:, None] * taps + tap[None, :], total, mask=keep)

    # -- columns -----------------------------------------------------------------------------

    @torch.library.triton_op("basegraph::columns", mutates_args=())
    def _columns(x: Tensor, kh: int, kw: int, stride: int) -> Tensor:
        n, c, b, h, w = x.shape
        height, width = after(h, kh, stride), after(w, kw, stride)
        y = x.new_empty(n, c, kh * kw, b, height, width)
        block = 1024
        grid = (triton.cdiv(b * height * width, block), n * c)
        torch.library.wrap_triton(_columns_kernel)[grid](
            x, y, b, h, w, height, width, KH=kh, KW=kw, STRIDE=stride, BLOCK=block,
        )  # fmt: skip
        return y

    def _keep_shape(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.kh, ctx.kw, ctx.stride = inputs
        ctx.shape = x.shape

    def _columns_backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        return _add_up(g, ctx.shape, ctx.kh, ctx.kw, ctx.stride), None, None, None

    def _add_up(g: Tensor, shape: torch.Size, kh: int, kw: int, stride: int) -> Tensor:
        """Every tap's gradient back to the pixels that the tap met; compiled, it is one pass."""
        height, width = g.shape[4:]
        rows, columns = stride * (height - 1) + 1, stride * (width - 1) + 1
        total = g.new_zeros(shape)
        for tap in range(kh * kw):
            i, j = divmod(tap, kw)
            wide = g.new_zeros(*g.shape[:2], *g.shape[3:5], shape[4])
            wide = torch.slice_scatter(wide, g[:, :, tap], 4, j, j + columns, stride)
            whole = g.new_zeros(shape)
            total = total + torch.slice_scatter(whole, wide, 3, i, i + rows, stride)
        return total

    _columns.register_autograd(_columns_backward, setup_context=_keep_shape)

    # -- small convolutions ------------------------------------------------------------------

    @torch.library.triton_op("basegraph::small_convolution", mutates_args=())
    def _convolution(x: Tensor, weight: Tensor, precision: str) -> Tensor:
        n, o, c, kh, kw = weight.shape
        _, _, b, h, w = x.shape
        height, width = after(h, kh), after(w, kw)
        y = x.new_empty(n, o, b, height, width)
        grid = (triton.cdiv(b * height * width, PIXELS), n)
        torch.library.wrap_triton(_correlate_kernel)[grid](
            x, weight, y, b, h, w, height, width, CHANNELS=c, OUTPUTS=o, PADDED=_padded(o),
            KH=kh, KW=kw, TAPS=TAPS, BLOCK=PIXELS, PRECISION=precision,
        )  # fmt: skip
        return y

    @torch.library.triton_op("basegraph::small_filter_gradient", mutates_args=())
    def _filter_gradient(x: Tensor, g: Tensor, kh: int, kw: int, precision: str) -> Tensor:
        """In parts, (n, parts, o, c, kh, kw): a few long sums would leave the device idle."""
        n, c, b, h, w = x.shape
        _, o, _, height, width = g.shape
        blocks, pixels = triton.cdiv(c * kh * kw, TAPS), b * height * width
        wanted = max(1, min(triton.cdiv(PROGRAMS, n * blocks), triton.cdiv(pixels, 4 * PIXELS)))
        span = triton.cdiv(triton.cdiv(pixels, wanted), PIXELS) * PIXELS
        parts = triton.cdiv(pixels, span)
        d = torch.empty(n, parts, o, c, kh, kw, dtype=torch.float32, device=x.device)
        torch.library.wrap_triton(_filter_gradient_kernel)[(blocks, parts, n)](
            x, g, d, b, h, w, height, width, span, CHANNELS=c, OUTPUTS=o, PADDED=_padded(o),
            KH=kh, KW=kw, TAPS=TAPS, BLOCK=PIXELS, PRECISION=precision,
        )  # fmt: skip
        return d

    def _keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.precision = inputs
        ctx.save_for_backward(x, weight)

    def _convolution_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        kh, kw = weight.shape[3:]
        d_x = d_weight = None
        if ctx.needs_input_grad[0]:
            taps = torch.bmm(weight.flatten(2).transpose(1, 2), g.flatten(2))
            n, c = x.shape[:2]
            d_x = _add_up(taps.view(n, c, kh * kw, *g.shape[2:]), x.shape, kh, kw, 1)
        if ctx.needs_input_grad[1]:
            parts = _filter_gradient(x, g.contiguous(), kh, kw, ctx.precision)
            d_weight = parts.sum(dim=1).to(weight.dtype)
        return d_x, d_weight, None

    _convolution.register_autograd(_convolution_backward, setup_context=_keep_inputs)


def columns(x_ncbhw: Tensor, kh: int, kw: int, stride: int) -> Tensor:
    """(n, c, kh·kw, b, h, w): for every tap, the pixels it meets."""
    return _columns(x_ncbhw.contiguous(), kh, kw, stride)


def small_convolution(x_ncbhw: Tensor, weight: Tensor, precision: str) -> Tensor:
    """Outputs (n, o, b, h, w) for filters (n, o, c, kh, kw), stride one."""
    how = "tf32" if precision == "tf32" else "ieee"
    return _convolution(x_ncbhw.contiguous(), weight.contiguous(), how)


def _padded(outputs: int) -> int:
    """A power of two, at least 16, as matrix products of small blocks want it."""
    return max(16, 1 << (outputs - 1).bit_length())
