"""Triton kernels for group normalization and what is around it, for groups of any size.

y = pool(relu(normalized(x + shift) · weight + bias + other)), of which shift (the bias of the
convolution before), other (a shortcut), ReLU and 2 × 2 max pooling may be missing. A program goes
twice through the channels of a group, of one sample or of several small ones: for sums, and to
write. The second time it mostly finds the pixels in the cache. The way back is the same, and
computes everything but mean and scale again from the pixels.

Shape legend: n nodes, c channels, b samples, h × w pixels. A tile is (channels, samples, pixels).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from basegraph.models.kernels import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

TILE = 8192
"""Pixels, of all channels and samples, that a program works on at a time, at most."""
PIXELS_PER_WARP = 512
"""Of them: 16 for each thread."""
SIDE_BY_SIDE = 64
"""Pixels that are read side by side: of several samples, if one has fewer."""


def fits(x_ncbhw: Tensor, other: Tensor | None = None, *, pools: bool = False) -> bool:
    """Whether there is a kernel for images of this size: as many pixels as a power of two.

    What is added must be images of the same size: the kernel does not broadcast.
    """
    if other is not None and other.shape != x_ncbhw.shape:
        return False
    h, w = x_ncbhw.shape[3:]
    power = (h * w) & (h * w - 1) == 0 and h * w <= TILE
    known = x_ncbhw.dtype in (torch.float32, torch.bfloat16)
    return AVAILABLE and known and power and (not pools or h % 2 == w % 2 == 0)


if AVAILABLE:

    @triton.jit
    def _pixels(
        first, SAMPLES: tl.constexpr, PIXELS: tl.constexpr, K: tl.constexpr, S: tl.constexpr
    ):
        """Where the pixels of a tile are, (K, S, pixels)."""
        planes = (first + tl.arange(0, K))[:, None] * SAMPLES + tl.arange(0, S)[None, :]
        return planes[:, :, None] * PIXELS + tl.arange(0, PIXELS)[None, None, :]

    @triton.jit
    def _pairs(
        first, SAMPLES: tl.constexpr, PIXELS: tl.constexpr, WIDTH: tl.constexpr, K: tl.constexpr,
        S: tl.constexpr,
    ):  # fmt: skip
        """Which pair of neighbors the upper half of every pooled pixel is, (K, S, pooled)."""
        planes = (first + tl.arange(0, K))[:, None] * SAMPLES + tl.arange(0, S)[None, :]
        pooled = tl.arange(0, PIXELS // 4)
        pair = pooled // (WIDTH // 2) * WIDTH + pooled % (WIDTH // 2)
        return planes[:, :, None] * (PIXELS // 2) + pair[None, None, :]

    @triton.jit
    def _per_channel(values, first, K: tl.constexpr, GIVEN: tl.constexpr):
        """One number for every channel of a tile, (K, 1, 1); 0 where none are given."""
        if GIVEN:
            return tl.load(values + first + tl.arange(0, K)).to(tl.float32)[:, None, None]
        return tl.zeros((K, 1, 1), tl.float32)

    @triton.jit
    def _load_pairs(x, pair):
        """The left and the right pixels of pairs, each of which is read as one integer.

        A bf16 number is the upper half of a float32.
        """
        if x.dtype.element_ty == tl.bfloat16:
            both = tl.load(x.to(tl.pointer_type(tl.int32)) + pair)
            left = both << 16
            right = both & -65536
        else:
            wide = tl.load(x.to(tl.pointer_type(tl.int64)) + pair)
            left = wide.to(tl.int32)
            right = (wide >> 32).to(tl.int32)
        return left.to(tl.float32, bitcast=True), right.to(tl.float32, bitcast=True)

    @triton.jit
    def _store_pairs(x, pair, left, right):
        if x.dtype.element_ty == tl.bfloat16:
            low = left.to(tl.bfloat16).to(tl.float32).to(tl.int32, bitcast=True) >> 16
            high = right.to(tl.bfloat16).to(tl.float32).to(tl.int32, bitcast=True)
            tl.store(x.to(tl.pointer_type(tl.int32)) + pair, (low & 65535) | high)
        else:
            low = left.to(tl.int32, bitcast=True).to(tl.int64) & 4294967295
            high = right.to(tl.int32, bitcast=True).to(tl.int64) << 32
            tl.store(x.to(tl.pointer_type(tl.int64)) + pair, low | high)

    @triton.jit
    def _forward_kernel(
        x, shift, weight, bias, other, y, means, scales, eps, SAMPLES: tl.constexpr,
        PIXELS: tl.constexpr, WIDTH: tl.constexpr, GROUPS: tl.constexpr, CHANNELS: tl.constexpr,
        SHIFTS: tl.constexpr, ADDS: tl.constexpr, RECTIFIES: tl.constexpr, POOLS: tl.constexpr,
        K: tl.constexpr, S: tl.constexpr,
    ):  # fmt: skip
        """Mean and variance of tiles put together; then y."""
        sample = tl.program_id(0) * S
        group = tl.program_id(2).to(tl.int64) * GROUPS + tl.program_id(1)
        first = group * CHANNELS * SAMPLES + sample
        x += first * PIXELS
        shift += group * CHANNELS
        weight += group * CHANNELS
        bias += group * CHANNELS
        mean, squares = tl.zeros((S,), tl.float32), tl.zeros((S,), tl.float32)
        for k in range(0, CHANNELS, K):
            at = _pixels(k, SAMPLES, PIXELS, K, S)
            value = tl.load(x + at).to(tl.float32) + _per_channel(shift, k, K, SHIFTS)
            here = tl.sum(tl.sum(value, axis=2), axis=0) / (K * PIXELS)
            value -= here[None, :, None]
            squares += tl.sum(tl.sum(value * value, axis=2), axis=0)
            apart = here - mean
            squares += apart * apart * (k * PIXELS * (K / (k + K)))
            mean += apart * (K / (k + K))
        scale = tl.rsqrt(squares / (CHANNELS * PIXELS) + eps)
        tl.store(means + group * SAMPLES + sample + tl.arange(0, S), mean)
        tl.store(scales + group * SAMPLES + sample + tl.arange(0, S), scale)
        mean, scale = mean[None, :, None], scale[None, :, None]
        for k in range(0, CHANNELS, K):
            level = _per_channel(shift, k, K, SHIFTS) - mean
            factor = _per_channel(weight, k, K, True) * scale
            start = _per_channel(bias, k, K, True)
            if POOLS:
                pairs = _pairs(k, SAMPLES, PIXELS, WIDTH, K, S)
                a, b = _load_pairs(x, pairs)
                c, d = _load_pairs(x, pairs + WIDTH // 2)
                upper = tl.maximum((a + level) * factor, (b + level) * factor)
                lower = tl.maximum((c + level) * factor, (d + level) * factor)
                z = tl.maximum(upper, lower) + start
                into = first * (PIXELS // 4) + _pixels(k, SAMPLES, PIXELS // 4, K, S)
            else:
                at = _pixels(k, SAMPLES, PIXELS, K, S)
                z = (tl.load(x + at).to(tl.float32) + level) * factor + start
                into = first * PIXELS + at
                if ADDS:
                    z += tl.load(other + into).to(tl.float32)
            if RECTIFIES:
                z = tl.where(z <= 0, 0.0, z)  # NaN stays NaN
            tl.store(y + into, z)

    @triton.jit
    def _rectified(
        x, lift, scale, factor, start, other, g, at, ADDS: tl.constexpr, RECTIFIES: tl.constexpr
    ):  # fmt: skip
        """The normalized pixels, and the slope that reaches them."""
        normal = (tl.load(x + at).to(tl.float32) + lift) * scale
        slope = tl.load(g + at).to(tl.float32)
        if RECTIFIES:
            z = normal * factor + start
            if ADDS:
                z += tl.load(other + at).to(tl.float32)
            slope = tl.where(z > 0, slope, 0.0)
        return normal, slope

    @triton.jit
    def _pooled(
        x, lift, scale, factor, start, g, pairs, at, WIDTH: tl.constexpr, RECTIFIES: tl.constexpr
    ):  # fmt: skip
        """The four normalized pixels, the slope, and which of them it reaches: the first of the
        largest, in the upper row or not, left or not.
        """
        a, b = _load_pairs(x, pairs)
        c, d = _load_pairs(x, pairs + WIDTH // 2)
        a, b = (a + lift) * scale, (b + lift) * scale
        c, d = (c + lift) * scale, (d + lift) * scale
        high, low = tl.maximum(a * factor, b * factor), tl.maximum(c * factor, d * factor)
        above = high >= low
        left = tl.where(above, a * factor >= b * factor, c * factor >= d * factor)
        slope = tl.load(g + at).to(tl.float32)
        if RECTIFIES:
            slope = tl.where(tl.maximum(high, low) + start > 0, slope, 0.0)
        return a, b, c, d, slope, above, left

    @triton.jit
    def _backward_kernel(
        x, shift, weight, bias, other, means, scales, g, d_x, d_shift, d_weight, d_bias, d_other,
        SAMPLES: tl.constexpr, PIXELS: tl.constexpr, WIDTH: tl.constexpr, GROUPS: tl.constexpr,
        CHANNELS: tl.constexpr, SHIFTS: tl.constexpr, ADDS: tl.constexpr, RECTIFIES: tl.constexpr,
        POOLS: tl.constexpr, K: tl.constexpr, S: tl.constexpr,
    ):  # fmt: skip
        """d_x is the slope less its mean over the group and less the normalized image times the
        mean of their product. The sums for weight, bias and shift are each sample's; from the first
        two come both means.
        """
        sample = tl.program_id(0) * S
        group = tl.program_id(2).to(tl.int64) * GROUPS + tl.program_id(1)
        first = group * CHANNELS * SAMPLES + sample
        x += first * PIXELS
        d_x += first * PIXELS
        other += first * PIXELS
        d_other += first * PIXELS
        g += first * (PIXELS // 4 if POOLS else PIXELS)
        shift += group * CHANNELS
        weight += group * CHANNELS
        bias += group * CHANNELS
        mean = tl.load(means + group * SAMPLES + sample + tl.arange(0, S))[None, :, None]
        scale = tl.load(scales + group * SAMPLES + sample + tl.arange(0, S))[None, :, None]
        level, tilt = tl.zeros((S,), tl.float32), tl.zeros((S,), tl.float32)
        for k in range(0, CHANNELS, K):
            lift = _per_channel(shift, k, K, SHIFTS) - mean
            factor, start = _per_channel(weight, k, K, True), _per_channel(bias, k, K, True)
            if POOLS:
                pairs = _pairs(k, SAMPLES, PIXELS, WIDTH, K, S)
                at = _pixels(k, SAMPLES, PIXELS // 4, K, S)
                a, b, c, d, slope, above, left = _pooled(
                    x, lift, scale, factor, start, g, pairs, at, WIDTH, RECTIFIES
                )
                normal = tl.where(above, tl.where(left, a, b), tl.where(left, c, d))
            else:
                at = _pixels(k, SAMPLES, PIXELS, K, S)
                normal, slope = _rectified(
                    x, lift, scale, factor, start, other, g, at, ADDS, RECTIFIES
                )
            for_bias, for_weight = tl.sum(slope, axis=2), tl.sum(slope * normal, axis=2)
            planes = (k + tl.arange(0, K))[:, None] * SAMPLES + tl.arange(0, S)[None, :]
            tl.store(d_bias + first + planes, for_bias)
            tl.store(d_weight + first + planes, for_weight)
            factors = tl.load(weight + k + tl.arange(0, K)).to(tl.float32)[:, None]
            level += tl.sum(for_bias * factors, axis=0)
            tilt += tl.sum(for_weight * factors, axis=0)
        level = (level / (CHANNELS * PIXELS))[None, :, None]
        tilt = (tilt / (CHANNELS * PIXELS))[None, :, None]
        for k in range(0, CHANNELS, K):
            lift = _per_channel(shift, k, K, SHIFTS) - mean
            factor, start = _per_channel(weight, k, K, True), _per_channel(bias, k, K, True)
            if POOLS:
                pairs = _pairs(k, SAMPLES, PIXELS, WIDTH, K, S)
                at = _pixels(k, SAMPLES, PIXELS // 4, K, S)
                a, b, c, d, slope, above, left = _pooled(
                    x, lift, scale, factor, start, g, pairs, at, WIDTH, RECTIFIES
                )
                slope *= factor
                a = (tl.where(above & left, slope, 0.0) - level - a * tilt) * scale
                b = (tl.where(above & (left == 0), slope, 0.0) - level - b * tilt) * scale
                c = (tl.where((above == 0) & left, slope, 0.0) - level - c * tilt) * scale
                d = (tl.where((above == 0) & (left == 0), slope, 0.0) - level - d * tilt) * scale
                _store_pairs(d_x, pairs, a, b)
                _store_pairs(d_x, pairs + WIDTH // 2, c, d)
                sums = tl.sum(a + b + c + d, axis=2)
            else:
                at = _pixels(k, SAMPLES, PIXELS, K, S)
                normal, slope = _rectified(
                    x, lift, scale, factor, start, other, g, at, ADDS, RECTIFIES
                )
                if ADDS:
                    tl.store(d_other + at, slope)
                value = (slope * factor - level - normal * tilt) * scale
                tl.store(d_x + at, value)
                sums = tl.sum(value, axis=2)
            if SHIFTS:
                planes = (k + tl.arange(0, K))[:, None] * SAMPLES + tl.arange(0, S)[None, :]
                tl.store(d_shift + first + planes, sums)

    def _sizes(x: Tensor, groups: int) -> dict[str, int]:
        """Compile-time constants; a tile has whole samples, and a power of two of everything."""
        _, c, b, h, w = x.shape
        channels, pixels = c // groups, h * w
        s = min(_power_in(b), max(1, SIDE_BY_SIDE // pixels))
        k = min(_power_in(channels), TILE // (s * pixels))
        warps = k * s * pixels // PIXELS_PER_WARP
        return {
            "SAMPLES": b, "PIXELS": pixels, "WIDTH": w, "GROUPS": groups, "CHANNELS": channels,
            "K": k, "S": s, "num_warps": max(1, warps),
        }  # fmt: skip

    @torch.library.triton_op("basegraph::group_norm", mutates_args=())
    def _forward(
        x: Tensor, shift: Tensor | None, weight: Tensor, bias: Tensor, other: Tensor | None,
        groups: int, eps: float, rectifies: bool, pools: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        n, c, b, h, w = x.shape
        y = x.new_empty(n, c, b, h // 2, w // 2) if pools else torch.empty_like(x)
        mean, scale = weight.new_empty(n, groups, b), weight.new_empty(n, groups, b)
        sizes = _sizes(x, groups)
        torch.library.wrap_triton(_forward_kernel)[(b // sizes["S"], groups, n)](
            x, weight if shift is None else shift, weight, bias, x if other is None else other, y,
            mean, scale, eps, SHIFTS=shift is not None, ADDS=other is not None,
            RECTIFIES=rectifies, POOLS=pools, **sizes,
        )  # fmt: skip
        return y, mean, scale

    @torch.library.triton_op("basegraph::group_norm_gradient", mutates_args=())
    def _gradient(
        x: Tensor, shift: Tensor | None, weight: Tensor, bias: Tensor, other: Tensor | None,
        mean: Tensor, scale: Tensor, g: Tensor, rectifies: bool, pools: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        """Of x, shift, weight, bias and other; the second to the fourth for every sample."""
        n, c, b = x.shape[:3]
        groups = mean.shape[1]
        d_x = torch.empty_like(x)
        d_weight, d_bias = weight.new_empty(n, c, b), weight.new_empty(n, c, b)
        d_shift = weight.new_empty((n, c, b) if shift is not None else (0,))
        d_other = torch.empty_like(x) if other is not None else x.new_empty(0)
        sizes = _sizes(x, groups)
        torch.library.wrap_triton(_backward_kernel)[(b // sizes["S"], groups, n)](
            x, weight if shift is None else shift, weight, bias, x if other is None else other,
            mean, scale, g, d_x, d_shift, d_weight, d_bias, d_other, SHIFTS=shift is not None,
            ADDS=other is not None, RECTIFIES=rectifies, POOLS=pools, **sizes,
        )  # fmt: skip
        return d_x, d_shift, d_weight, d_bias, d_other

    def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[:5], *output[1:])
        ctx.rectifies, ctx.pools = inputs[7:]

    def _backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        _, shift, _, _, other, *_ = ctx.saved_tensors
        d_x, d_shift, d_weight, d_bias, d_other = _gradient(
            *ctx.saved_tensors, g.contiguous(), ctx.rectifies, ctx.pools
        )
        return (
            d_x,
            None if shift is None else d_shift.sum(dim=2),
            d_weight.sum(dim=2),
            d_bias.sum(dim=2),
            None if other is None else d_other,
            *[None] * 4,
        )

    _forward.register_autograd(_backward, setup_context=_keep)


def group_norm(
    x_ncbhw: Tensor,
    weight: Tensor,
    bias: Tensor,
    groups: int,
    eps: float,
    *,
    shift: Tensor | None = None,
    other: Tensor | None = None,
    rectifies: bool = False,
    pools: bool = False,
) -> Tensor:
    """pool(relu(normalized(x + shift) · weight + bias + other)), images that it `fits`.

    Args:
        x_ncbhw: The images.
        weight: For every channel, (n, c), in float32, as are bias and shift.
        bias: Likewise.
        groups: Into which channels are cut.
        eps: What is added to the variance.
        shift: What is added to every channel before; its gradient comes back, too.
        other: Images that are added after normalization; not with `pools`.
        rectifies: Whether ReLU follows.
        pools: Whether the largest of 2 × 2 pixels is taken last.

    """
    x, weight, bias = (t.contiguous() for t in (x_ncbhw, weight, bias))
    shift = None if shift is None else shift.contiguous()
    other = None if other is None else other.contiguous()
    return _forward(x, shift, weight, bias, other, groups, eps, rectifies, pools)[0]


def _power_in(number: int) -> int:
    """The largest power of two that divides it."""
    return number & -number
