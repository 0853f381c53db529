"""Triton kernels for convolutions with a different filter for every node.

`columns` writes out the shifted copies of an image that a filter meets, for one matrix product. A
convolution with few channels does so little arithmetic that writing them out would cost more than
everything else: `small_convolution` reads the image where it lies. In its blocks pixels come before
taps: Triton then gives neighboring pixels, not neighboring taps, to neighboring threads.

Triton comes with torch for GPUs; without it `AVAILABLE` is false.

Shape legend: n nodes, c channels, o outputs, b samples, h × w pixels, kh × kw taps, p the pixels
of all samples. Images are padded already, but for `columns`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

try:
    import triton
    import triton.language as tl
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

SMALL_FILTER = 4096
"""Weights of a filter up to which `small_convolution` is the quicker way."""
PIXELS = 128
"""Pixels that a program works on at a time."""
FEW_OUTPUTS = 8
"""Outputs of a convolution up to which tensor cores are of no use."""
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
        x, y, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
        OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
        STRIDE: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """y[c, i, j, p] = x[c, p moved by (i, j)], one plane (node and channel), some pixels.

        The image is surrounded by zeros, PH rows and PW columns on either side.
        """
        plane = tl.program_id(0).to(tl.int64)  # of which there may be millions
        pixels: tl.constexpr = SAMPLES * OUT_HEIGHT * OUT_WIDTH
        place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        sample = place // (OUT_HEIGHT * OUT_WIDTH)
        row = place // OUT_WIDTH % OUT_HEIGHT * STRIDE - PH
        column = place % OUT_WIDTH * STRIDE - PW
        at = (sample * HEIGHT + row) * WIDTH + column
        x += plane * (SAMPLES * HEIGHT * WIDTH)
        y += plane * (KH * KW * pixels)
        for i in tl.static_range(KH):
            for j in tl.static_range(KW):
                keep = place < pixels
                if PH > 0:
                    keep &= (row + i >= 0) & (row + i < HEIGHT)
                if PW > 0:
                    keep &= (column + j >= 0) & (column + j < WIDTH)
                value = tl.load(x + at + i * WIDTH + j, mask=keep, other=0.0)
                tl.store(y + (i * KW + j) * pixels + place, value, mask=place < pixels)

    @triton.jit
    def _columns_gradient_kernel(
        g, d, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
        OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
        STRIDE: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """d[c, p] = Σ g[c, i, j, q], where q moved by (i, j) is p: one plane, some pixels."""
        plane = tl.program_id(0).to(tl.int64)
        pixels: tl.constexpr = SAMPLES * OUT_HEIGHT * OUT_WIDTH
        place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        sample = place // (HEIGHT * WIDTH)
        row, column = place // WIDTH % HEIGHT + PH, place % WIDTH + PW
        inside = place < SAMPLES * HEIGHT * WIDTH
        g += plane * (KH * KW * pixels)
        total = tl.zeros((BLOCK,), tl.float32)
        for i in tl.static_range(KH):
            for j in tl.static_range(KW):
                down, across = row - i, column - j
                keep = inside & (down >= 0) & (across >= 0)
                if STRIDE > 1:
                    keep &= (down % STRIDE == 0) & (across % STRIDE == 0)
                    down, across = down // STRIDE, across // STRIDE
                keep &= (down < OUT_HEIGHT) & (across < OUT_WIDTH)
                at = (sample * OUT_HEIGHT + down) * OUT_WIDTH + across
                value = tl.load(g + (i * KW + j) * pixels + at, mask=keep, other=0.0)
                total += value.to(tl.float32)
        tl.store(d + plane * (SAMPLES * HEIGHT * WIDTH) + place, total, mask=inside)

    @triton.jit
    def _window(
        place, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr
    ):
        """Where in a channel's images the window of an output pixel begins."""
        row = place // (WIDTH - KW + 1)
        sample = row // (HEIGHT - KH + 1)
        return (sample * HEIGHT + row % (HEIGHT - KH + 1)) * WIDTH + place % (WIDTH - KW + 1)

    @triton.jit
    def _correlate_kernel(
        x, w, bias, y, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
        CHANNELS: tl.constexpr, OUTPUTS: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
        PADDED: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """y[o, p] = bias[o] + Σ w[o, c, i, j] x[c, p moved by (i, j)], one node and some pixels."""
        node = tl.program_id(1).to(tl.int64)
        pixels: tl.constexpr = SAMPLES * (HEIGHT - KH + 1) * (WIDTH - KW + 1)
        taps: tl.constexpr = CHANNELS * KH * KW
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        at = _window(tl.minimum(place, pixels - 1), HEIGHT, WIDTH, KH, KW)
        output = tl.arange(0, PADDED)
        x += node * CHANNELS * SAMPLES * HEIGHT * WIDTH
        w += node * OUTPUTS * taps
        start = tl.load(bias + node * OUTPUTS + tl.minimum(output, OUTPUTS - 1)).to(tl.float32)
        total = tl.zeros((BLOCK, PADDED), tl.float32) + start[None, :]
        for first in tl.static_range(0, taps, TAPS):
            tap = first + tl.arange(0, TAPS)
            known = tl.minimum(tap, taps - 1)
            shift = (known // (KH * KW) * SAMPLES * HEIGHT + known // KW % KH) * WIDTH + known % KW
            value = tl.load(x + at[:, None] + shift[None, :])
            keep = (output[None, :] < OUTPUTS) & (tap[:, None] < taps)
            factor = tl.load(w + output[None, :] * taps + tap[:, None], mask=keep, other=0.0)
            total = tl.dot(value, factor, total, input_precision=PRECISION)
        y += node * OUTPUTS * pixels
        keep = (output[None, :] < OUTPUTS) & (place[:, None] < pixels)
        tl.store(y + output[None, :] * pixels + place[:, None], total, mask=keep)

    @triton.jit
    def _few_outputs_kernel(
        x, w, bias, y, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
        CHANNELS: tl.constexpr, OUTPUTS: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
        PADDED: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """The same tap by tap, in float32: tensor cores would compute at least 16 outputs."""
        node = tl.program_id(1).to(tl.int64)
        pixels: tl.constexpr = SAMPLES * (HEIGHT - KH + 1) * (WIDTH - KW + 1)
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        output = tl.arange(0, PADDED)
        known = tl.minimum(output, OUTPUTS - 1)
        x += node * CHANNELS * SAMPLES * HEIGHT * WIDTH
        at = x + _window(tl.minimum(place, pixels - 1), HEIGHT, WIDTH, KH, KW)
        w += (node * OUTPUTS + known) * CHANNELS * KH * KW
        total = tl.zeros((PADDED, BLOCK), tl.float32)
        total += tl.load(bias + node * OUTPUTS + known).to(tl.float32)[:, None]
        for _ in range(CHANNELS):
            for i in tl.static_range(KH):
                for j in tl.static_range(KW):
                    value = tl.load(at + i * WIDTH + j).to(tl.float32)
                    factor = tl.load(w + i * KW + j).to(tl.float32)
                    total += factor[:, None] * value[None, :]
            at += SAMPLES * HEIGHT * WIDTH
            w += KH * KW
        y += node * OUTPUTS * pixels
        keep = (output[:, None] < OUTPUTS) & (place[None, :] < pixels)
        tl.store(y + output[:, None] * pixels + place[None, :], total, mask=keep)

    @triton.jit
    def _filter_gradient_kernel(
        x, g, d, span, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
        CHANNELS: tl.constexpr, OUTPUTS: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
        PADDED: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """d[o, (c, i, j)] = Σ g[o, p] x[c, p moved by (i, j)], one node and a span of pixels.

        One tap more meets ones: the gradient of the bias.
        """
        node = tl.program_id(2).to(tl.int64)
        part = tl.program_id(1)
        pixels: tl.constexpr = SAMPLES * (HEIGHT - KH + 1) * (WIDTH - KW + 1)
        taps: tl.constexpr = CHANNELS * KH * KW
        tap = tl.arange(0, TAPS)
        if taps >= TAPS:
            tap += tl.program_id(0) * TAPS
        known = tl.minimum(tap, taps - 1)
        shift = (known // (KH * KW) * SAMPLES * HEIGHT + known // KW % KH) * WIDTH + known % KW
        output = tl.arange(0, PADDED)
        x += node * CHANNELS * SAMPLES * HEIGHT * WIDTH
        g += node * OUTPUTS * pixels
        total = tl.zeros((PADDED, TAPS), tl.float32)
        last = tl.minimum(part * span + span, pixels)
        for begin in range(part * span, last, BLOCK):
            place = begin + tl.arange(0, BLOCK)
            at = _window(tl.minimum(place, pixels - 1), HEIGHT, WIDTH, KH, KW)
            value = tl.load(x + at[:, None] + shift[None, :])
            value = tl.where(tap[None, :] == taps, 1.0, value).to(x.dtype.element_ty)
            keep = (output[:, None] < OUTPUTS) & (place[None, :] < last)
            slope = tl.load(g + output[:, None] * pixels + place[None, :], mask=keep, other=0.0)
            total = tl.dot(slope, value, total, input_precision=PRECISION)
        d += (node * tl.num_programs(1) + part) * OUTPUTS * (taps + 1)
        keep = (output[:, None] < OUTPUTS) & (tap[None, :] <= taps)
        tl.store(d + output[:, None] * (taps + 1) + tap[None, :], total, mask=keep)

    # -- columns -----------------------------------------------------------------------------

    def _column_sizes(
        shape: torch.Size, kh: int, kw: int, stride: int, ph: int, pw: int
    ) -> dict[str, int]:
        _, _, b, h, w = shape
        return {
            "SAMPLES": b, "HEIGHT": h, "WIDTH": w, "OUT_HEIGHT": after(h + 2 * ph, kh, stride),
            "OUT_WIDTH": after(w + 2 * pw, kw, stride), "KH": kh, "KW": kw, "STRIDE": stride,
            "PH": ph, "PW": pw, "BLOCK": 1024,
        }  # fmt: skip

    @torch.library.triton_op("basegraph::columns", mutates_args=())
    def _columns(x: Tensor, kh: int, kw: int, stride: int, ph: int, pw: int) -> Tensor:
        sizes = _column_sizes(x.shape, kh, kw, stride, ph, pw)
        n, c, b = x.shape[:3]
        y = x.new_empty(n, c, kh * kw, b, sizes["OUT_HEIGHT"], sizes["OUT_WIDTH"])
        grid = (n * c, triton.cdiv(y[0, 0, 0].numel(), sizes["BLOCK"]))
        torch.library.wrap_triton(_columns_kernel)[grid](x, y, **sizes)
        return y

    @torch.library.triton_op("basegraph::columns_gradient", mutates_args=())
    def _columns_gradient(
        g: Tensor, h: int, w: int, kh: int, kw: int, stride: int, ph: int, pw: int
    ) -> Tensor:
        n, c, _, b = g.shape[:4]
        d = g.new_empty(n, c, b, h, w)
        sizes = _column_sizes(d.shape, kh, kw, stride, ph, pw)
        grid = (n * c, triton.cdiv(b * h * w, sizes["BLOCK"]))
        torch.library.wrap_triton(_columns_gradient_kernel)[grid](g, d, **sizes)
        return d

    def _keep_shape(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, *ctx.sizes = inputs
        ctx.image = x.shape[3:]

    def _columns_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return _columns_gradient(g.contiguous(), *ctx.image, *ctx.sizes), *[None] * 5

    _columns.register_autograd(_columns_backward, setup_context=_keep_shape)

    # -- small convolutions ------------------------------------------------------------------

    def _sizes(x: Tensor, weight: Tensor) -> dict[str, int]:
        """Compile-time constants: a tap's offset is then part of the instruction that loads it."""
        _, c, b, h, w = x.shape
        _, o, _, kh, kw = weight.shape
        return {
            "SAMPLES": b, "HEIGHT": h, "WIDTH": w, "CHANNELS": c, "OUTPUTS": o, "KH": kh, "KW": kw,
        }  # fmt: skip

    @torch.library.triton_op("basegraph::small_convolution", mutates_args=())
    def _convolution(x: Tensor, weight: Tensor, bias: Tensor, precision: str) -> Tensor:
        n, o, _, kh, kw = weight.shape
        _, _, b, h, w = x.shape
        y = x.new_empty(n, o, b, after(h, kh), after(w, kw))
        pixels = y[0, 0].numel()
        if o <= FEW_OUTPUTS or (precision == "ieee" and x.dtype is torch.float32):
            torch.library.wrap_triton(_few_outputs_kernel)[(triton.cdiv(pixels, 512), n)](
                x, weight, bias, y, **_sizes(x, weight), PADDED=triton.next_power_of_2(o),
                BLOCK=512,
            )  # fmt: skip
        else:
            torch.library.wrap_triton(_correlate_kernel)[(triton.cdiv(pixels, 256), n)](
                x, weight, bias, y, **_sizes(x, weight), PADDED=padded(o), TAPS=TAPS, BLOCK=256,
                PRECISION=precision,
            )  # fmt: skip
        return y

    @torch.library.triton_op("basegraph::small_filter_gradient", mutates_args=())
    def _filter_gradient(x: Tensor, weight: Tensor, g: Tensor, precision: str) -> Tensor:
        """In parts, (n, parts, o, taps + 1): a few long sums would leave the device idle."""
        n, o, c, kh, kw = weight.shape
        taps, pixels = c * kh * kw, g[0, 0].numel()
        blocks = triton.cdiv(taps + 1, TAPS)
        wanted = max(1, min(triton.cdiv(PROGRAMS, n * blocks), triton.cdiv(pixels, 4 * PIXELS)))
        span = triton.cdiv(triton.cdiv(pixels, wanted), PIXELS) * PIXELS
        parts = triton.cdiv(pixels, span)
        d = torch.empty(n, parts, o, taps + 1, dtype=torch.float32, device=x.device)
        torch.library.wrap_triton(_filter_gradient_kernel)[(blocks, parts, n)](
            x, g, d, span, **_sizes(x, weight), PADDED=padded(o), TAPS=TAPS, BLOCK=PIXELS,
            PRECISION=precision, num_stages=1,
        )  # fmt: skip
        return d

    def _image_gradient(x: Tensor, weight: Tensor, g: Tensor) -> Tensor:
        """By a product that tensor cores can take: its rows begin at multiples of eight numbers."""
        n, _, c, kh, kw = weight.shape
        taps = c * kh * kw
        filters = functional.pad(weight.flatten(2), (0, -taps % 8))
        taps_gradient = torch.bmm(filters.transpose(1, 2), g.flatten(2))[:, :taps]
        taps_gradient = taps_gradient.reshape(n, c, kh * kw, *g.shape[2:]).contiguous()
        return _columns_gradient(taps_gradient, *x.shape[3:], kh, kw, 1, 0, 0)

    def _keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, _, ctx.precision = inputs
        ctx.save_for_backward(x, weight)

    def _convolution_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        g = g.contiguous()
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = _image_gradient(x, weight, g)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            d = _filter_gradient(x, weight, g, ctx.precision).sum(dim=1).to(weight.dtype)
            d_weight, d_bias = d[..., :-1].reshape(weight.shape), d[..., -1]
        return d_x, d_weight, d_bias, None

    _convolution.register_autograd(_convolution_backward, setup_context=_keep_inputs)


def columns(
    x_ncbhw: Tensor, kh: int, kw: int, stride: int, padding: tuple[int, int] = (0, 0)
) -> Tensor:
    """(n, c, kh·kw, b, h, w): for every tap, the pixels it meets; zeros around the image."""
    return _columns(x_ncbhw.contiguous(), kh, kw, stride, *padding)


def small_convolution(
    x_ncbhw: Tensor, weight: Tensor, precision: str, bias: Tensor | None = None
) -> Tensor:
    """Outputs (n, o, b, h, w) for filters (n, o, c, kh, kw) and a bias (n, o), stride one."""
    how = "tf32" if precision == "tf32" else "ieee"
    start = weight.new_zeros(weight.shape[:2]) if bias is None else bias.to(weight.dtype)
    return _convolution(x_ncbhw.contiguous(), weight.contiguous(), start.contiguous(), how)


def padded(outputs: int) -> int:
    """A power of two, at least 16, as matrix products of small blocks want it."""
    return max(16, 1 << (outputs - 1).bit_length())
