"""Triton kernels for group normalization, ReLU and 2 × 2 max pooling in one pass each way.

Normalization comes first, or last. A program holds a group of one sample: its pixels are read once,
and what is written is a quarter of them. The way back computes everything but mean and scale again
from the pixels.

Shape legend: n nodes, c channels, b samples, h × w pixels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from basegraph.models.kernels import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

MOST_PIXELS = 2048
"""Pooled pixels of a group that a program can hold."""
MOST_CHANNELS = 16
"""Channels of a group up to which a sum for every one of them is cheap."""


def fits(x_ncbhw: Tensor, groups: int) -> bool:
    """Whether there is a kernel for images of this size."""
    c, _, h, w = x_ncbhw.shape[1:]
    small = c // groups <= MOST_CHANNELS and c // groups * h * w // 4 <= MOST_PIXELS
    known = x_ncbhw.dtype in (torch.float32, torch.bfloat16)
    return AVAILABLE and known and small and h % 2 == w % 2 == 0


if AVAILABLE:

    @triton.jit
    def _places(
        SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
    ):
        """Of every pooled pixel: its channel, its place, and those of the pairs it is made of."""
        pooled: tl.constexpr = HEIGHT * WIDTH // 4
        place = tl.arange(0, BLOCK)
        channel, pixel = place // pooled, place % pooled
        corner = pixel // (WIDTH // 2) * (2 * WIDTH) + pixel % (WIDTH // 2) * 2
        pair = (channel * (SAMPLES * HEIGHT * WIDTH) + corner)[:, None] + tl.arange(0, 2)[None, :]
        return channel, channel * (SAMPLES * pooled) + pixel, pair

    @triton.jit
    def _store_sums(
        into, value, channel, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
        CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """The sum of every channel, at once where a block has nothing but whole channels."""
        if CHANNELS * HEIGHT * WIDTH // 4 == BLOCK:
            sums = tl.sum(tl.reshape(value, (CHANNELS, BLOCK // CHANNELS)), axis=1)
            tl.store(into + tl.arange(0, CHANNELS) * SAMPLES, sums)
        else:
            for k in tl.static_range(CHANNELS):
                tl.store(into + k * SAMPLES, tl.sum(tl.where(channel == k, value, 0.0)))

    @triton.jit
    def _largest(a, b):
        return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)

    @triton.jit
    def _norm_first_kernel(
        x, weight, bias, y, means, scales, eps, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr,
        WIDTH: tl.constexpr, GROUPS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """y = the largest of four of relu((x - mean) · scale · weight + bias)."""
        sample, group = tl.program_id(0), tl.program_id(2).to(tl.int64) * GROUPS + tl.program_id(1)
        count: tl.constexpr = CHANNELS * HEIGHT * WIDTH
        channel, place, pair = _places(SAMPLES, HEIGHT, WIDTH, BLOCK)
        inside = channel < CHANNELS
        first = group * CHANNELS * SAMPLES + sample
        x += first * (HEIGHT * WIDTH)
        a, b = tl.split(tl.load(x + pair, mask=inside[:, None], other=0.0).to(tl.float32))
        c, d = tl.split(tl.load(x + pair + WIDTH, mask=inside[:, None], other=0.0).to(tl.float32))
        mean = tl.sum(a + b + c + d) / count
        a, b, c, d = a - mean, b - mean, c - mean, d - mean
        squares = tl.where(inside, a * a + b * b + c * c + d * d, 0.0)
        scale = tl.rsqrt(tl.sum(squares) / count + eps)
        factor = tl.load(weight + group * CHANNELS + channel, mask=inside, other=0.0) * scale
        start = tl.load(bias + group * CHANNELS + channel, mask=inside, other=0.0)
        upper, lower = tl.maximum(a * factor, b * factor), tl.maximum(c * factor, d * factor)
        largest = tl.maximum(upper, lower) + start
        largest = tl.where(largest <= 0, 0.0, largest)  # NaN stays NaN
        tl.store(y + first * (HEIGHT * WIDTH // 4) + place, largest, mask=inside)
        tl.store(means + group * SAMPLES + sample, mean)
        tl.store(scales + group * SAMPLES + sample, scale)

    @triton.jit
    def _norm_first_backward_kernel(
        x, weight, bias, means, scales, g, d_x, d_weight, d_bias, SAMPLES: tl.constexpr,
        HEIGHT: tl.constexpr, WIDTH: tl.constexpr, GROUPS: tl.constexpr, CHANNELS: tl.constexpr,
        BLOCK: tl.constexpr,
    ):  # fmt: skip
        """The slope goes to the first of the largest pixels, less its mean over the group and less
        the normalized image times the mean of their product; weight's and bias's are the sample's.
        """
        sample, group = tl.program_id(0), tl.program_id(2).to(tl.int64) * GROUPS + tl.program_id(1)
        count: tl.constexpr = CHANNELS * HEIGHT * WIDTH
        channel, place, pair = _places(SAMPLES, HEIGHT, WIDTH, BLOCK)
        inside = channel < CHANNELS
        first = group * CHANNELS * SAMPLES + sample
        x += first * (HEIGHT * WIDTH)
        mean = tl.load(means + group * SAMPLES + sample)
        scale = tl.load(scales + group * SAMPLES + sample)
        factor = tl.load(weight + group * CHANNELS + channel, mask=inside, other=0.0)
        start = tl.load(bias + group * CHANNELS + channel, mask=inside, other=0.0)
        g += first * (HEIGHT * WIDTH // 4)
        slope = tl.load(g + place, mask=inside, other=0.0).to(tl.float32)
        upper = tl.load(x + pair, mask=inside[:, None], other=0.0).to(tl.float32)
        lower = tl.load(x + pair + WIDTH, mask=inside[:, None], other=0.0).to(tl.float32)
        a, b = tl.split((upper - mean) * scale)
        c, d = tl.split((lower - mean) * scale)
        high, low = tl.maximum(a * factor, b * factor), tl.maximum(c * factor, d * factor)
        slope = tl.where(tl.maximum(high, low) + start > 0, slope, 0.0)
        above = high >= low
        left = tl.where(above, a * factor >= b * factor, c * factor >= d * factor)
        best = tl.where(above, tl.where(left, a, b), tl.where(left, c, d))
        _store_sums(
            d_weight + first, slope * best, channel, SAMPLES, HEIGHT, WIDTH, CHANNELS, BLOCK
        )
        _store_sums(d_bias + first, slope, channel, SAMPLES, HEIGHT, WIDTH, CHANNELS, BLOCK)
        slope *= factor
        level, tilt = tl.sum(slope) / count, tl.sum(slope * best) / count
        a = tl.where(above & left, slope, 0.0) - level - a * tilt
        b = tl.where(above & (left == 0), slope, 0.0) - level - b * tilt
        c = tl.where((above == 0) & left, slope, 0.0) - level - c * tilt
        d = tl.where((above == 0) & (left == 0), slope, 0.0) - level - d * tilt
        d_x += first * (HEIGHT * WIDTH)
        tl.store(d_x + pair, tl.join(a, b) * scale, mask=inside[:, None])
        tl.store(d_x + pair + WIDTH, tl.join(c, d) * scale, mask=inside[:, None])

    @triton.jit
    def _norm_last_kernel(
        x, weight, bias, y, means, scales, eps, SAMPLES: tl.constexpr, HEIGHT: tl.constexpr,
        WIDTH: tl.constexpr, GROUPS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """y = (z - mean) · scale · weight + bias, z the largest of four of relu(x)."""
        sample, group = tl.program_id(0), tl.program_id(2).to(tl.int64) * GROUPS + tl.program_id(1)
        count: tl.constexpr = CHANNELS * HEIGHT * WIDTH // 4
        channel, place, pair = _places(SAMPLES, HEIGHT, WIDTH, BLOCK)
        inside = channel < CHANNELS
        first = group * CHANNELS * SAMPLES + sample
        x += first * (HEIGHT * WIDTH)
        a, b = tl.split(tl.load(x + pair, mask=inside[:, None], other=0.0).to(tl.float32))
        c, d = tl.split(tl.load(x + pair + WIDTH, mask=inside[:, None], other=0.0).to(tl.float32))
        z = _largest(_largest(a, b), _largest(c, d))
        z = tl.where(z <= 0, 0.0, z)
        mean = tl.sum(z) / count
        z -= mean
        scale = tl.rsqrt(tl.sum(tl.where(inside, z * z, 0.0)) / count + eps)
        factor = tl.load(weight + group * CHANNELS + channel, mask=inside, other=0.0) * scale
        start = tl.load(bias + group * CHANNELS + channel, mask=inside, other=0.0)
        tl.store(y + first * (HEIGHT * WIDTH // 4) + place, z * factor + start, mask=inside)
        tl.store(means + group * SAMPLES + sample, mean)
        tl.store(scales + group * SAMPLES + sample, scale)

    @triton.jit
    def _norm_last_backward_kernel(
        x, weight, bias, means, scales, g, d_x, d_weight, d_bias, SAMPLES: tl.constexpr,
        HEIGHT: tl.constexpr, WIDTH: tl.constexpr, GROUPS: tl.constexpr, CHANNELS: tl.constexpr,
        BLOCK: tl.constexpr,
    ):  # fmt: skip
        """The slope less its mean and less the normalized image times the mean of their product
        goes to the first of the largest pixels, where these are positive.
        """
        sample, group = tl.program_id(0), tl.program_id(2).to(tl.int64) * GROUPS + tl.program_id(1)
        count: tl.constexpr = CHANNELS * HEIGHT * WIDTH // 4
        channel, place, pair = _places(SAMPLES, HEIGHT, WIDTH, BLOCK)
        inside = channel < CHANNELS
        first = group * CHANNELS * SAMPLES + sample
        x += first * (HEIGHT * WIDTH)
        a, b = tl.split(tl.load(x + pair, mask=inside[:, None], other=0.0).to(tl.float32))
        c, d = tl.split(tl.load(x + pair + WIDTH, mask=inside[:, None], other=0.0).to(tl.float32))
        high, low = _largest(a, b), _largest(c, d)
        above = high >= low
        left = tl.where(above, a >= b, c >= d)
        largest = _largest(high, low)
        scale = tl.load(scales + group * SAMPLES + sample)
        z = tl.where(largest <= 0, 0.0, largest) - tl.load(means + group * SAMPLES + sample)
        z = tl.where(inside, z * scale, 0.0)
        factor = tl.load(weight + group * CHANNELS + channel, mask=inside, other=0.0)
        g += first * (HEIGHT * WIDTH // 4)
        slope = tl.load(g + place, mask=inside, other=0.0).to(tl.float32)
        _store_sums(d_weight + first, slope * z, channel, SAMPLES, HEIGHT, WIDTH, CHANNELS, BLOCK)
        _store_sums(d_bias + first, slope, channel, SAMPLES, HEIGHT, WIDTH, CHANNELS, BLOCK)
        slope *= factor
        slope = (slope - tl.sum(slope) / count - z * (tl.sum(slope * z) / count)) * scale
        slope = tl.where(largest <= 0, 0.0, slope)
        upper = tl.join(
            tl.where(above & left, slope, 0.0), tl.where(above & (left == 0), slope, 0.0)
        )
        lower = tl.join(
            tl.where((above == 0) & left, slope, 0.0),
            tl.where((above == 0) & (left == 0), slope, 0.0),
        )
        d_x += first * (HEIGHT * WIDTH)
        tl.store(d_x + pair, upper, mask=inside[:, None])
        tl.store(d_x + pair + WIDTH, lower, mask=inside[:, None])

    def _sizes(x: Tensor, groups: int) -> dict[str, int]:
        _, c, b, h, w = x.shape
        block = max(32, triton.next_power_of_2(c // groups * h * w // 4))
        return {
            "SAMPLES": b, "HEIGHT": h, "WIDTH": w, "GROUPS": groups, "CHANNELS": c // groups,
            "BLOCK": block, "num_warps": min(8, max(1, block // 256)),
        }  # fmt: skip

    @torch.library.triton_op("basegraph::norm_relu_pool", mutates_args=())
    def _forward(
        x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, norm_last: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        n, c, b, h, w = x.shape
        y = x.new_empty(n, c, b, h // 2, w // 2)
        mean, scale = weight.new_empty(n, groups, b), weight.new_empty(n, groups, b)
        kernel = _norm_last_kernel if norm_last else _norm_first_kernel
        torch.library.wrap_triton(kernel)[(b, groups, n)](
            x, weight, bias, y, mean, scale, eps, **_sizes(x, groups)
        )
        return y, mean, scale

    @torch.library.triton_op("basegraph::norm_relu_pool_gradient", mutates_args=())
    def _gradient(
        x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, scale: Tensor, g: Tensor,
        norm_last: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """(d_x, d_weight, d_bias), the last two for every sample, (n, c, b)."""
        n, c, b = x.shape[:3]
        groups = mean.shape[1]
        d_x = torch.empty_like(x)
        d_weight, d_bias = weight.new_empty(n, c, b), weight.new_empty(n, c, b)
        kernel = _norm_last_backward_kernel if norm_last else _norm_first_backward_kernel
        torch.library.wrap_triton(kernel)[(b, groups, n)](
            x, weight, bias, mean, scale, g, d_x, d_weight, d_bias, **_sizes(x, groups)
        )
        return d_x, d_weight, d_bias

    def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[:3], *output[1:])
        ctx.norm_last = inputs[5]

    def _backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        d_x, d_weight, d_bias = _gradient(*ctx.saved_tensors, g.contiguous(), ctx.norm_last)
        return d_x, d_weight.sum(dim=2), d_bias.sum(dim=2), None, None, None

    _forward.register_autograd(_backward, setup_context=_keep)


def norm_relu_pool(
    x_ncbhw: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, *, last: bool = False
) -> Tensor:
    """(n, c, b, h/2, w/2) for weight and bias (n, c): normalized by groups, ReLU, largest of four.

    For images that it `fits`, weight and bias in float32. `last`: normalized after the others.
    """
    tensors = (t.contiguous() for t in (x_ncbhw, weight, bias))
    return _forward(*tensors, groups, eps, last)[0]
