"""The layers of a network as functions of all nodes at once.

Every one is a batched product or an elementwise pass, `form(layer, parameters, *inputs)`. A
convolution is what it is by definition: the image's shifted copies, one for every tap of the
filter, times a matrix that is the filter as it lies in the flat vector.

Shape legend: n nodes, c channels, b samples, h × w pixels, t taps of a filter, f features, o
outputs. Activations are (n, c, b, h, w), then (n, f, b): what a filter sums over comes first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from basegraph.models import group_norm_kernels, kernels, norm_kernels, run_kernels

Parameters = dict[str, Tensor]
"""A layer's parameters by their names in the layer, each with the node axis in front."""


def convolution(
    layer: nn.Conv2d, parameters: Parameters, x_ncbhw: Tensor, precision: str
) -> Tensor:
    """A product of the filters with the image's shifted copies, or a kernel for small filters."""
    (kh, kw), (sh, sw), (ph, pw) = _pairs(layer)
    x, weight = x_ncbhw, parameters["weight"].to(x_ncbhw.dtype)
    on_gpu = kernels.AVAILABLE and x.is_cuda
    small = (sh, sw) == (1, 1) and layer.weight.numel() <= kernels.SMALL_FILTER
    if on_gpu and sh == sw and not small:
        columns = kernels.columns(x, kh, kw, sh, (ph, pw))
    else:
        x = functional.pad(x, (pw, pw, ph, ph)) if ph or pw else x
        if on_gpu and small:
            in_runs = run_kernels.fits(layer.out_channels, precision)
            form = run_kernels.convolution_in_runs if in_runs else kernels.small_convolution
            return form(x, weight, precision, parameters.get("bias"))
        columns = _taps(x, kh, kw, sh, sw)
    y = torch.bmm(weight.flatten(2), columns.flatten(3).flatten(1, 2))
    return _with_bias(y.view(*y.shape[:2], *columns.shape[3:]), parameters)


def _taps(x: Tensor, kh: int, kw: int, sh: int, sw: int) -> Tensor:
    """(n, c, t, b, h, w): for every tap, the pixels it meets.

    Channels before taps, as in the filter, which is then used as it lies in memory.
    """
    height, width = (x.shape[3] - kh) // sh + 1, (x.shape[4] - kw) // sw + 1
    taps = [
        x[:, :, :, i : i + sh * (height - 1) + 1 : sh, j : j + sw * (width - 1) + 1 : sw]
        for i in range(kh)
        for j in range(kw)
    ]
    return torch.stack(taps, dim=2)


def _pairs(layer: nn.Conv2d) -> list[tuple[int, int]]:
    """Kernel size, stride and padding."""
    sizes = (layer.kernel_size, layer.stride, layer.padding)
    return [(int(size[0]), int(size[1])) for size in sizes]


def _with_bias(y: Tensor, parameters: Parameters) -> Tensor:
    """y (n, o, ...) plus the bias (n, o) where there is one."""
    if "bias" not in parameters:
        return y
    n, outputs = parameters["bias"].shape
    return y + parameters["bias"].to(y.dtype).view(n, outputs, *[1] * (y.dim() - 2))


def linear(layer: nn.Linear, parameters: Parameters, x_nfb: Tensor) -> Tensor:
    """(n, f, b) -> (n, o, b)"""
    return _with_bias(torch.bmm(parameters["weight"].to(x_nfb.dtype), x_nfb), parameters)


def group_norm(layer: nn.GroupNorm, parameters: Parameters, x_ncbhw: Tensor) -> Tensor:
    """Statistics in at least float32: the variance of bf16 numbers computed in bf16 is NaN.

    Mean and variance are over the group's channels and all pixels.
    """
    n, c, b, h, w = x_ncbhw.shape
    wide = torch.promote_types(x_ncbhw.dtype, torch.float32)
    x = x_ncbhw.to(wide).view(n, layer.num_groups, -1, b, h, w)
    variance, mean = torch.var_mean(x, dim=(2, 4, 5), correction=0, keepdim=True)
    y = ((x - mean) * torch.rsqrt(variance + layer.eps)).view(n, c, b, h, w)
    if layer.affine:
        y = y * parameters["weight"].view(n, c, 1, 1, 1) + parameters["bias"].view(n, c, 1, 1, 1)
    return y.to(x_ncbhw.dtype)


def max_pool(layer: nn.MaxPool2d, parameters: Parameters, x_ncbhw: Tensor) -> Tensor:
    """Max pooling, by comparisons where every 2 x 2 pixels become one."""
    h, w = x_ncbhw.shape[3:]
    if _halves(layer) and h % 2 == w % 2 == 0:
        return _largest_of_four(x_ncbhw)
    y = layer(x_ncbhw.flatten(0, 1))
    return y.view(*x_ncbhw.shape[:3], *y.shape[2:])


def _halves(layer: nn.MaxPool2d) -> bool:
    """Whether every 2 x 2 pixels become one."""
    return (layer.kernel_size, layer.stride, layer.padding, layer.dilation) == (2, 2, 0, 1)


class Normalization(NamedTuple):
    """Group normalization with what follows it in one pass, maybe: see `fusion.py`."""

    norm: nn.GroupNorm
    rectifies: bool = False
    pool: nn.MaxPool2d | None = None


def normalization(
    layers: Normalization, parameters: Parameters, x_ncbhw: Tensor, other: Tensor | None = None
) -> Tensor:
    """pool(relu(norm(x + shift) + other)), in one pass where there is a kernel for it.

    Shift is the bias of the convolution before, among the parameters where it was left to this.
    """
    norm, rectifies, pool = layers
    pools = pool is not None and _halves(pool)
    shift = parameters.get("shift")
    if x_ncbhw.is_cuda and norm.affine:
        weight, bias = parameters["weight"], parameters["bias"]
        whole = rectifies and pools and shift is None and other is None
        if whole and norm_kernels.fits(x_ncbhw, norm.num_groups):
            return norm_kernels.norm_relu_pool(x_ncbhw, weight, bias, norm.num_groups, norm.eps)
        if group_norm_kernels.fits(x_ncbhw, other, pools=pools):
            y = group_norm_kernels.group_norm(
                x_ncbhw, weight, bias, norm.num_groups, norm.eps,
                shift=shift, other=other, rectifies=rectifies, pools=pools,
            )  # fmt: skip
            return y if pool is None or pools else max_pool(pool, {}, y)
    x = x_ncbhw if shift is None else _with_bias(x_ncbhw, {"bias": shift})
    y = group_norm(norm, parameters, x)
    y = y if other is None else y + other
    y = torch.relu(y) if rectifies else y
    return y if pool is None else max_pool(pool, {}, y)


class PooledNormalization(NamedTuple):
    """Max pooling, and group normalization after it."""

    pool: nn.MaxPool2d
    norm: nn.GroupNorm


def relu_pool_norm(layers: PooledNormalization, parameters: Parameters, x_ncbhw: Tensor) -> Tensor:
    """ReLU, max pooling and group normalization, in one pass where there is a kernel for it."""
    pool, norm = layers
    groups = norm.num_groups
    known = x_ncbhw.is_cuda and norm.affine and _halves(pool)
    if known and norm_kernels.fits(x_ncbhw, groups):
        weight, bias = parameters["weight"], parameters["bias"]
        return norm_kernels.norm_relu_pool(x_ncbhw, weight, bias, groups, norm.eps, last=True)
    return group_norm(norm, parameters, max_pool(pool, {}, torch.relu(x_ncbhw)))


def _largest_of_four(x_ncbhw: Tensor) -> Tensor:
    """Max pooling by comparisons, which fuse with what is around them, and so does its gradient.

    Of equal pixels the first one is the largest, and NaN stays NaN, as in torch.
    """
    pixels = [x_ncbhw.detach()[..., i::2, j::2] for i in (0, 1) for j in (0, 1)]
    largest, winner = pixels[0], torch.zeros_like(pixels[0], dtype=torch.uint8)
    for number, pixel in enumerate(pixels[1:], start=1):
        wins = (pixel > largest) | pixel.isnan()
        largest = torch.where(wins, pixel, largest)
        winner = torch.where(wins, number, winner)
    corner = torch.arange(4, dtype=torch.uint8, device=x_ncbhw.device).view(2, 1, 2)
    chosen = winner[..., :, None, :, None] == corner
    n, c, b, h, w = x_ncbhw.shape
    x = x_ncbhw.reshape(n, c, b, h // 2, 2, w // 2, 2)
    return torch.where(chosen, x, 0).sum(dim=(4, 6))


def average_pool(layer: nn.AdaptiveAvgPool2d, parameters: Parameters, x_ncbhw: Tensor) -> Tensor:
    """The mean of every image, one pixel."""
    return x_ncbhw.mean(dim=(3, 4), keepdim=True)


def add(layer: None, parameters: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """x + y"""
    return x + y


def relu(layer: nn.ReLU | None, parameters: Parameters, x: Tensor) -> Tensor:
    """max(x, 0)"""
    return torch.relu(x)


def same(layer: nn.Identity, parameters: Parameters, x: Tensor) -> Tensor:
    """x"""
    return x


def flatten(layer: nn.Flatten | None, parameters: Parameters, x: Tensor) -> Tensor:
    """(n, c, b, h, w) -> (n, c·h·w, b)"""
    return x.permute(0, 1, 3, 4, 2).flatten(1, 3) if x.dim() > 3 else x


def plain(layer: nn.Module) -> bool:
    """Whether the layer is used in the way for which there is a form."""
    match layer:
        case nn.Conv2d():
            plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
            return plain and isinstance(layer.padding, tuple)
        case nn.MaxPool2d():
            return not layer.return_indices
        case nn.AdaptiveAvgPool2d():
            return layer.output_size in (1, (1, 1))
        case nn.Flatten():
            return layer.start_dim == 1 and layer.end_dim == -1
    return True


LAYERS: dict[type, Callable[..., Tensor]] = {
    nn.Conv2d: convolution,
    nn.Linear: linear,
    nn.GroupNorm: group_norm,
    nn.MaxPool2d: max_pool,
    nn.AdaptiveAvgPool2d: average_pool,
    nn.Flatten: flatten,
    nn.ReLU: relu,
    nn.Identity: same,
}
OF_VECTORS = (linear, flatten, relu, same, add)
"""Forms that take vectors of features as well as images."""
FUNCTIONS: dict[Any, tuple[Callable[..., Tensor], tuple[object, ...]]] = {
    operator.add: (add, ()),
    torch.add: (add, ()),
    torch.relu: (relu, ()),
    functional.relu: (relu, ()),
    "relu": (relu, ()),
    torch.flatten: (flatten, (1,)),
    "flatten": (flatten, (1,)),
}
"""A function or a method's name -> (stacked form, its other arguments)."""
