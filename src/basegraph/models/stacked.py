"""A network of all nodes at once: every layer one batched product or one elementwise pass.

`vmap` turns a convolution with a different filter for every node into a grouped one, for which
libraries have no fast kernel. Here all nodes are one batched matrix product, and so are its two
gradients: `stacked_layers.py` has the layers' forms, `fusion.py` says which are made in one pass.

Shape legend: n nodes, c channels, b samples, h × w pixels, f features, o outputs.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, fx, nn

from basegraph.models.flat import first_names
from basegraph.models.fusion import LayerCall, fused
from basegraph.models.stacked_layers import (
    FUNCTIONS,
    LAYERS,
    OF_VECTORS,
    Parameters,
    convolution,
    plain,
)


class UnknownLayer(Exception):
    """A network has a part for which there is no stacked form."""


class StackedNetwork:
    """The module as a function of all nodes' parameters; `UnknownLayer` where it has none.

    `precision` is that of products; normalization is computed in float32 or wider.
    """

    def __init__(self, module: nn.Module, precision: str = "float32") -> None:
        self.precision = precision
        self.calls = fused(_layer_calls(module))

    def takes(self, samples: Tensor) -> bool:
        """Whether the layers have stacked forms for such samples: images, or vectors of numbers."""
        vectors = samples.dim() == 3 and all(call.form in OF_VECTORS for call in self.calls)
        return samples.is_floating_point() and (samples.dim() == 5 or vectors)

    def __call__(self, views: Parameters, samples: Tensor) -> Tensor:
        """Outputs (n, b, o) for samples (n, b, c, h, w) or (n, b, f); views are (n, *shape)."""
        x_ncbhw = samples.transpose(1, 2)
        results = [x_ncbhw.bfloat16() if self.precision == "bf16" else x_ncbhw]
        for form, layer, names, arguments in self.calls:
            parameters = {name: views[in_module] for name, in_module in names.items()}
            taken: list[Any] = [results[a] for a in arguments]
            if form is convolution:
                taken.append(self.precision)
            results.append(form(layer, parameters, *taken))
        return results[-1].transpose(1, 2).to(samples.dtype)


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
            form = LAYERS.get(type(layer))
            if form is None or node.kwargs or rest or not plain(layer):
                raise UnknownLayer(f"no stacked form of {layer}")
            names = {name: first[p] for name, p in layer.named_parameters()}
            calls.append(LayerCall(form, layer, names, taken))
        else:
            known = FUNCTIONS.get(node.target)
            options = {k: v for k, v in node.kwargs.items() if (k, v) != ("inplace", False)}
            if known is None or options or rest != known[1]:
                raise UnknownLayer(f"no stacked form of {node.target}")
            calls.append(LayerCall(known[0], None, {}, taken))
        position[node] = len(calls)
    return calls
