"""Triton kernels for convolutions with few outputs, a different filter for every node.

Their arithmetic is so little that fetching numbers costs more. So the four pixels of a run, side by
side in a row of the result, are computed by one row of a matrix product: their windows overlap, and
eight columns are read once instead of twenty.

Shape legend: n nodes, c channels, o outputs, b samples, h × w pixels, kh × kw taps. Images are
padded already.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from basegraph.models.kernels import AVAILABLE, padded

if AVAILABLE:
    import triton
    import triton.language as tl

MOST_OUTPUTS = 16
"""Of a convolution up to which this is the quicker way."""
LONGEST_RUN = 4
"""Pixels side by side that one row of a product stands for, at most."""
RUNS = 128
"""Runs that a program works on at a time, ..."""
SUMMED = 32
"""... and where it adds up."""
TAPS = 32
"""Taps, of all channels, that a program works on at a time, ..."""
MOST_TAPS = 256
"""... and where it adds up, at most."""
PROGRAMS = 4096
"""Programs that fill a device."""


if AVAILABLE:

    @triton.jit
    def _runs(place, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr, RUN: tl.constexpr):
        """Of a run of pixels of the result: its row, of all samples, and its first column.

        The last run of a row ends where the row ends: it may share pixels with the one before.
        """
        runs: tl.constexpr = (OUT_WIDTH + RUN - 1) // RUN
        column = place % runs * RUN
        if OUT_WIDTH % RUN != 0:
            column = tl.minimum(column, OUT_WIDTH - RUN)
        return place // runs, column

    @triton.jit
    def _windows(
        x, row, column, tap, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
        CHANNELS: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, WHOLE: tl.constexpr,
        RUN: tl.constexpr, SPAN: tl.constexpr,
    ):  # fmt: skip
        """(runs, taps): the pixels that the windows of a run's pixels meet, rows of `SPAN`."""
        out_height: tl.constexpr = HEIGHT + KH - 1 if WHOLE else HEIGHT - KH + 1
        across, down, channel = tap % SPAN, tap // SPAN % KH, tap // (SPAN * KH)
        shift = (channel * SAMPLES * HEIGHT + down) * WIDTH + across
        first = row // out_height * HEIGHT + row % out_height
        if WHOLE:
            at = (first - (KH - 1)) * WIDTH + column - (KW - 1)
            high = (row % out_height)[:, None] + down[None, :] - (KH - 1)
            wide = column[:, None] + across[None, :] - (KW - 1)
            keep = (high >= 0) & (high < HEIGHT) & (wide >= 0) & (wide < WIDTH)
            keep &= (channel < CHANNELS)[None, :]
            return tl.load(x + at[:, None] + shift[None, :], mask=keep, other=0.0)
        at = first * WIDTH + column
        keep = (tap < CHANNELS * KH * SPAN) & (across < RUN + KW - 1)
        return tl.load(x + at[:, None] + shift[None, :], mask=keep[None, :], other=0.0)

    @triton.jit
    def _correlate_kernel(
        x, w, bias, y, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
        CHANNELS: tl.constexpr, OUTPUTS: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
        WHOLE: tl.constexpr, RUN: tl.constexpr, SPAN: tl.constexpr, COLUMNS: tl.constexpr,
        TAPS: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """y[o, p] = bias[o] + Σ w[o, c, i, j] x[c, p moved by (i, j)], one node and some runs.

        A product with the pixels of a run side by side: for the one `t` places further, the filter
        is moved by `t`.
        """
        node = tl.program_id(1).to(tl.int64)
        out_height: tl.constexpr = HEIGHT + KH - 1 if WHOLE else HEIGHT - KH + 1
        out_width: tl.constexpr = WIDTH + KW - 1 if WHOLE else WIDTH - KW + 1
        count: tl.constexpr = SAMPLES * out_height * ((out_width + RUN - 1) // RUN)
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        row, column = _runs(tl.minimum(place, count - 1), out_height, out_width, RUN)
        x += node * CHANNELS * SAMPLES * HEIGHT * WIDTH
        w += node * OUTPUTS * CHANNELS * KH * KW
        output, t = tl.arange(0, COLUMNS) // RUN, tl.arange(0, COLUMNS) % RUN
        start = tl.load(bias + node * OUTPUTS + tl.minimum(output, OUTPUTS - 1)).to(tl.float32)
        total = tl.zeros((BLOCK, COLUMNS), tl.float32) + start[None, :]
        for begin in tl.static_range(0, CHANNELS * KH * SPAN, TAPS):
            tap = begin + tl.arange(0, TAPS)
            value = _windows(
                x, row, column, tap, SAMPLES, HEIGHT, WIDTH, CHANNELS, KH, KW, WHOLE, RUN, SPAN
            )
            across = (tap % SPAN)[:, None] - t[None, :]
            at = (output[None, :] * CHANNELS * KH + (tap // SPAN)[:, None]) * KW + across
            keep = (across >= 0) & (across < KW) & (output[None, :] < OUTPUTS)
            keep &= (tap < CHANNELS * KH * SPAN)[:, None]
            factor = tl.load(w + at, mask=keep, other=0.0)
            total = tl.dot(value, factor, total, input_precision=PRECISION)
        y += node * OUTPUTS * SAMPLES * out_height * out_width
        at = (row * out_width + column)[:, None] + t[None, :]
        keep = (output[None, :] < OUTPUTS) & (place[:, None] < count)
        tl.store(y + output[None, :] * (SAMPLES * out_height * out_width) + at, total, mask=keep)

    @triton.jit
    def _filter_gradient_kernel(
        x, g, d, span, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
        CHANNELS: tl.constexpr, OUTPUTS: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
        RUN: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, TAPS: tl.constexpr,
        BLOCK: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """d[(o, t), (c, i, j)] = Σ g[o, p + t] x[c, p moved by (i, j)], one node, a span of runs.

        One tap more meets ones: the gradient of the bias.
        """
        node = tl.program_id(2).to(tl.int64)
        part = tl.program_id(1)
        out_height: tl.constexpr = HEIGHT - KH + 1
        out_width: tl.constexpr = WIDTH - KW + 1
        runs: tl.constexpr = (out_width + RUN - 1) // RUN
        count: tl.constexpr = SAMPLES * out_height * runs
        taps: tl.constexpr = CHANNELS * KH * SPAN
        tap = tl.arange(0, TAPS)
        if taps >= TAPS:
            tap += tl.program_id(0) * TAPS
        output, t = tl.arange(0, ROWS) // RUN, tl.arange(0, ROWS) % RUN
        x += node * CHANNELS * SAMPLES * HEIGHT * WIDTH
        g += node * OUTPUTS * SAMPLES * out_height * out_width
        total = tl.zeros((ROWS, TAPS), tl.float32)
        last = tl.minimum(part * span + span, count)
        for begin in range(part * span, last, BLOCK):
            place = begin + tl.arange(0, BLOCK)
            row, column = _runs(tl.minimum(place, count - 1), out_height, out_width, RUN)
            value = _windows(
                x, row, column, tap, SAMPLES, HEIGHT, WIDTH, CHANNELS, KH, KW, False, RUN, SPAN
            )
            value = tl.where(tap[None, :] == taps, 1.0, value).to(x.dtype.element_ty)
            keep = (output[:, None] < OUTPUTS) & (place[None, :] < last)
            if out_width % RUN != 0:  # pixels of two runs count once
                keep &= column[None, :] + t[:, None] >= (place % runs * RUN)[None, :]
            at = (row * out_width + column)[None, :] + t[:, None]
            at += output[:, None] * (SAMPLES * out_height * out_width)
            slope = tl.load(g + at, mask=keep, other=0.0)
            total = tl.dot(slope, value, total, input_precision=PRECISION)
        d += (node * tl.num_programs(1) + part) * OUTPUTS * RUN * (taps + 1)
        keep = (output[:, None] < OUTPUTS) & (tap[None, :] <= taps)
        at = tl.arange(0, ROWS)[:, None] * (taps + 1) + tap[None, :]
        tl.store(d + at, total, mask=keep)

    def _sizes(x: Tensor, weight: Tensor, out_width: int) -> dict[str, int]:
        """Compile-time constants: a tap's offset is then part of the instruction that loads it."""
        _, c, b, h, w = x.shape
        _, o, _, kh, kw = weight.shape
        run = _run(o, out_width)
        return {
            "SAMPLES": b, "HEIGHT": h, "WIDTH": w, "CHANNELS": c, "OUTPUTS": o, "KH": kh, "KW": kw,
            "RUN": run, "SPAN": triton.next_power_of_2(run + kw - 1),
        }  # fmt: skip

    @torch.library.triton_op("basegraph::convolution_in_runs", mutates_args=())
    def _convolution(
        x: Tensor, weight: Tensor, bias: Tensor, precision: str, whole: bool = False
    ) -> Tensor:
        """`whole`: also where the filter only touches the image."""
        n, o, _, kh, kw = weight.shape
        _, _, b, h, w = x.shape
        more = -1 if whole else 1
        y = x.new_empty(n, o, b, h - more * (kh - 1), w - more * (kw - 1))
        sizes = _sizes(x, weight, y.shape[4])
        count = b * y.shape[3] * triton.cdiv(y.shape[4], sizes["RUN"])
        torch.library.wrap_triton(_correlate_kernel)[(triton.cdiv(count, RUNS), n)](
            x, weight, bias, y, **sizes, WHOLE=whole, COLUMNS=padded(o * sizes["RUN"]), TAPS=TAPS,
            BLOCK=RUNS, PRECISION=precision,
        )  # fmt: skip
        return y

    @torch.library.triton_op("basegraph::filter_gradient_in_runs", mutates_args=())
    def _filter_gradient(x: Tensor, weight: Tensor, g: Tensor, precision: str) -> Tensor:
        """In parts, (n, parts, o, run, taps + 1): few long sums would leave the device idle."""
        n, o, c, kh, _ = weight.shape
        sizes = _sizes(x, weight, g.shape[4])
        run, taps = sizes["RUN"], c * kh * sizes["SPAN"]
        count = g.shape[2] * g.shape[3] * triton.cdiv(g.shape[4], run)
        block = min(MOST_TAPS, max(16, triton.next_power_of_2(taps + 1)))
        blocks = triton.cdiv(taps + 1, block)
        wanted = max(1, min(triton.cdiv(PROGRAMS, n * blocks), triton.cdiv(count, 4 * SUMMED)))
        span = triton.cdiv(triton.cdiv(count, wanted), SUMMED) * SUMMED
        parts = triton.cdiv(count, span)
        d = torch.empty(n, parts, o, run, taps + 1, dtype=torch.float32, device=x.device)
        torch.library.wrap_triton(_filter_gradient_kernel)[(blocks, parts, n)](
            x, g, d, span, **sizes, ROWS=padded(o * run), TAPS=block, BLOCK=SUMMED,
            PRECISION=precision, num_stages=1,
        )  # fmt: skip
        return d

    def _image_gradient(weight: Tensor, g: Tensor, precision: str) -> Tensor:
        """The same with the filter turned round, channels and outputs exchanged."""
        turned = weight.flip(3, 4).transpose(1, 2).contiguous()
        none = turned.new_zeros(turned.shape[:2])
        return _convolution(g, turned, none, precision, whole=True)

    def _gathered(d: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(weight's gradient, bias's) from the sums of pixels that lie `t` places further."""
        _, _, c, kh, kw = weight.shape
        d = d.sum(dim=1)
        d_bias = d[..., -1].sum(dim=2)
        windows = d[..., :-1].unflatten(3, (c, kh, -1))
        d_weight = sum(windows[:, :, t, ..., t : t + kw] for t in range(d.shape[2]))
        return d_weight.to(weight.dtype), d_bias.to(weight.dtype)

    def _keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, _, ctx.precision, _ = inputs
        ctx.save_for_backward(x, weight)

    def _convolution_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        g = g.contiguous()
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = _image_gradient(weight, g, ctx.precision)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            d = _filter_gradient(x, weight, g, ctx.precision)
            d_weight, d_bias = _gathered(d, weight)
        return d_x, d_weight, d_bias, None, None

    _convolution.register_autograd(_convolution_backward, setup_context=_keep_inputs)


def fits(outputs: int, precision: str) -> bool:
    """Whether it is the quicker way: with few outputs, and where tensor cores may multiply."""
    return outputs <= MOST_OUTPUTS and precision != "float32"


def convolution_in_runs(
    x_ncbhw: Tensor, weight: Tensor, precision: str, bias: Tensor | None = None
) -> Tensor:
    """As `kernels.small_convolution`."""
    how = "tf32" if precision == "tf32" else "ieee"
    start = weight.new_zeros(weight.shape[:2]) if bias is None else bias.to(weight.dtype)
    return _convolution(x_ncbhw.contiguous(), weight.contiguous(), start.contiguous(), how)


def _run(outputs: int, width: int) -> int:
    """Pixels in a run: few where each has many outputs; a power of two."""
    most = max(1, 64 // padded(outputs))
    return 1 << min(LONGEST_RUN, most, width).bit_length() - 1
