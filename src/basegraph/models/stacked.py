"""A network of all nodes at once: every layer one batched product or one elementwise pass.

`vmap` turns a convolution with a different filter for every node into a grouped one, for which
libraries have no fast kernel. Here a convolution is what it is by definition: the image's shifted
copies, one for every tap of the filter, times a matrix that is the filter as it lies in the flat
vector. So all nodes are one batched matrix product, and so are its two gradients.

Shape legend: n nodes, c channels, b samples, h × w pixels, t taps of a filter, f features, o
outputs. Activations are (n, c, b, h, w), then (n, f, b): what a filter sums over comes first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from basegraph.models import kernels, norm_kernels, run_kernels
from basegraph.models.flat import first_names

Parameters = dict[str, Tensor]
"""A layer's parameters by their names in the layer, each with the node axis in front."""


class UnknownLayer(Exception):
    """A network has a part for which there is no stacked form."""


class StackedNetwork:
    """The module as a function of all nodes' parameters; `UnknownLayer` where it has none.

    `precision` is that of products; normalization is computed in float32 or wider.
    """

    def __init__(self, module: nn.Module, precision: str = "float32") -> None:
        self.precision = precision
        self.calls = _layer_calls(module)

    def takes(self, samples: Tensor) -> bool:
        """Whether the layers have stacked forms for such samples: images, or vectors of numbers."""
        vectors = samples.dim() == 3 and all(call.form in _OF_VECTORS for call in self.calls)
        return samples.is_floating_point() and (samples.dim() == 5 or vectors)

    def __call__(self, views: Parameters, samples: Tensor) -> Tensor:
        """Outputs (n, b, o) for samples (n, b, c, h, w) or (n, b, f); views are (n, *shape)."""
        x_ncbhw = samples.transpose(1, 2)
        results = [x_ncbhw.bfloat16() if self.precision == "bf16" else x_ncbhw]
        for form, layer, names, arguments in self.calls:
            parameters = {name: views[in_module] for name, in_module in names.items()}
            taken: list[Any] = [results[a] for a in arguments]
            if form is _convolution:
                taken.append(self.precision)
            results.append(form(layer, parameters, *taken))
        return results[-1].transpose(1, 2).to(samples.dtype)


class LayerCall(NamedTuple):
    """One layer, and what it is called with."""

    form: Callable[..., Tensor]
    layer: nn.Module | None
    names: dict[str, str]
    """The layer's parameters: name in the layer -> name in the module."""
    arguments: tuple[int, ...]
    """Which earlier results it takes; 0 is the input."""


def _layer_calls(module: nn.Module) -> list[LayerCall]:
    """The module's layers in the order in which its code calls them."""
    try:
        graph = fx.Tracer().trace(module)
    except Exception as error:  # tracing runs the user's code, which may do anything
        raise UnknownLayer(f"{type(module).__name__} cannot be traced: {error}") from error
    layers = dict(module.named_modules())
    first = first_names(module)
    position: dict[fx.Node, int] = {}
    calls: list[LayerCall] = []
    for node in graph.nodes:
        taken = tuple(position[a] for a in node.args if isinstance(a, fx.Node))
        rest = tuple(a for a in node.args if not isinstance(a, fx.Node))
        if node.op == "placeholder":
            if position:
                raise UnknownLayer("a network of several inputs")
            position[node] = 0
            continue
        if node.op == "output":
            if taken != (len(calls),):
                raise UnknownLayer("a network that returns something else than its last result")
            break
        if node.op == "call_module":
            layer = layers[str(node.target)]
            form = _LAYERS.get(type(layer))
            if form is None or node.kwargs or rest or not _plain(layer):
                raise UnknownLayer(f"no stacked form of {layer}")
            names = {name: first[p] for name, p in layer.named_parameters()}
            calls.append(LayerCall(form, layer, names, taken))
            if _in_a_row(calls, node):
                three = calls[-3:]
                norm = next(call for call in three if call.form is _group_norm)
                pool = next(call for call in three if call.form is _max_pool)
                pair = nn.Sequential(*(call.layer for call in (norm, pool) if call.layer))
                form = _norm_relu_pool if norm is three[0] else _relu_pool_norm
                calls[-3:] = [LayerCall(form, pair, norm.names, three[0].arguments)]
        else:
            known = _FUNCTIONS.get(node.target)
            options = {k: v for k, v in node.kwargs.items() if (k, v) != ("inplace", False)}
            if known is None or options or rest != known[1]:
                raise UnknownLayer(f"no stacked form of {node.target}")
            calls.append(LayerCall(known[0], None, {}, taken))
        position[node] = len(calls)
    return calls


def _in_a_row(calls: list[LayerCall], last: fx.Node) -> bool:
    """Whether the last calls are normalization, ReLU, pooling, or ReLU, pooling, normalization.

    With no other use of their parts.
    """
    forms = [call.form for call in calls[-3:]]
    if forms not in ([_group_norm, _relu, _max_pool], [_relu, _max_pool, _group_norm]):
        return False
    chain = [call.arguments for call in calls[-2:]] == [(len(calls) - 2,), (len(calls) - 1,)]
    second = last.all_input_nodes[0]
    return chain and len(second.users) == len(second.all_input_nodes[0].users) == 1


# -- layers --------------------------------------------------------------------------------------


def _convolution(
    layer: nn.Conv2d, parameters: Parameters, x_ncbhw: Tensor, precision: str
) -> Tensor:
    (kh, kw), (sh, sw), (ph, pw) = _pairs(layer)
    x = functional.pad(x_ncbhw, (pw, pw, ph, ph)) if ph or pw else x_ncbhw
    weight = parameters["weight"].to(x.dtype)
    on_gpu = kernels.AVAILABLE and x.is_cuda
    if on_gpu and (sh, sw) == (1, 1) and layer.weight.numel() <= kernels.SMALL_FILTER:
        small = kernels.small_convolution
        if run_kernels.fits(layer.out_channels, precision):
            small = run_kernels.convolution_in_runs
        return small(x, weight, precision, parameters.get("bias"))
    columns = kernels.columns(x, kh, kw, sh) if on_gpu and sh == sw else _taps(x, kh, kw, sh, sw)
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


def _linear(layer: nn.Linear, parameters: Parameters, x_nfb: Tensor) -> Tensor:
    return _with_bias(torch.bmm(parameters["weight"].to(x_nfb.dtype), x_nfb), parameters)


def _group_norm(layer: nn.GroupNorm, parameters: Parameters, x_ncbhw: Tensor) -> Tensor:
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


def _max_pool(layer: nn.MaxPool2d, parameters: Parameters, x_ncbhw: Tensor) -> Tensor:
    h, w = x_ncbhw.shape[3:]
    if _halves(layer) and h % 2 == w % 2 == 0:
        return _largest_of_four(x_ncbhw)
    y = layer(x_ncbhw.flatten(0, 1))
    return y.view(*x_ncbhw.shape[:3], *y.shape[2:])


def _halves(layer: nn.MaxPool2d) -> bool:
    """Whether every 2 x 2 pixels become one."""
    return (layer.kernel_size, layer.stride, layer.padding, layer.dilation) == (2, 2, 0, 1)


def _norm_relu_pool(layers: nn.Sequential, parameters: Parameters, x_ncbhw: Tensor) -> Tensor:
    """Group normalization, ReLU and max pooling, in one pass where there is a kernel for it."""
    norm, pool = cast("tuple[nn.GroupNorm, nn.MaxPool2d]", tuple(layers))
    if _in_one_pass(norm, pool, x_ncbhw):
        weight, bias = parameters["weight"], parameters["bias"]
        return norm_kernels.norm_relu_pool(x_ncbhw, weight, bias, norm.num_groups, norm.eps)
    return _max_pool(pool, {}, torch.relu(_group_norm(norm, parameters, x_ncbhw)))


def _relu_pool_norm(layers: nn.Sequential, parameters: Parameters, x_ncbhw: Tensor) -> Tensor:
    """ReLU, max pooling and group normalization, in one pass where there is a kernel for it."""
    norm, pool = cast("tuple[nn.GroupNorm, nn.MaxPool2d]", tuple(layers))
    if _in_one_pass(norm, pool, x_ncbhw):
        weight, bias = parameters["weight"], parameters["bias"]
        return norm_kernels.norm_relu_pool(
            x_ncbhw, weight, bias, norm.num_groups, norm.eps, last=True
        )
    return _group_norm(norm, parameters, _max_pool(pool, {}, torch.relu(x_ncbhw)))


def _in_one_pass(norm: nn.GroupNorm, pool: nn.MaxPool2d, x_ncbhw: Tensor) -> bool:
    """Whether there is a kernel for such a normalization with ReLU and pooling."""
    known = x_ncbhw.is_cuda and norm.affine and _halves(pool)
    return known and norm_kernels.fits(x_ncbhw, norm.num_groups)


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


def _average_pool(layer: nn.AdaptiveAvgPool2d, parameters: Parameters, x_ncbhw: Tensor) -> Tensor:
    return x_ncbhw.mean(dim=(3, 4), keepdim=True)


def _add(layer: None, parameters: Parameters, x: Tensor, y: Tensor) -> Tensor:
    return x + y


def _relu(layer: nn.ReLU | None, parameters: Parameters, x: Tensor) -> Tensor:
    return torch.relu(x)


def _same(layer: nn.Identity, parameters: Parameters, x: Tensor) -> Tensor:
    return x


def _flatten(layer: nn.Flatten | None, parameters: Parameters, x: Tensor) -> Tensor:
    """(n, c, b, h, w) -> (n, c·h·w, b)"""
    return x.permute(0, 1, 3, 4, 2).flatten(1, 3) if x.dim() > 3 else x


def _plain(layer: nn.Module) -> bool:
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


_LAYERS: dict[type, Callable[..., Tensor]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _linear,
    nn.GroupNorm: _group_norm,
    nn.MaxPool2d: _max_pool,
    nn.AdaptiveAvgPool2d: _average_pool,
    nn.Flatten: _flatten,
    nn.ReLU: _relu,
    nn.Identity: _same,
}
_OF_VECTORS = (_linear, _flatten, _relu, _same, _add)
"""Forms that take vectors of features as well as images."""
_FUNCTIONS: dict[Any, tuple[Callable[..., Tensor], tuple[object, ...]]] = {
    operator.add: (_add, ()),
    torch.add: (_add, ()),
    torch.relu: (_relu, ()),
    functional.relu: (_relu, ()),
    "relu": (_relu, ()),
    torch.flatten: (_flatten, (1,)),
    "flatten": (_flatten, (1,)),
}
"""A function or a method's name -> (stacked form, its other arguments)."""
