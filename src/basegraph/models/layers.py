"""What the layers of a module do with one sample: found by running it once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def layer_outputs(module: nn.Module, example: Tensor) -> list[tuple[nn.Module, torch.Size]]:
    """Every innermost layer with the shape of its output for one input, in the order of calls.

    Empty where the module does not take such inputs: whoever trains it will say so.
    """
    outputs: list[tuple[nn.Module, torch.Size]] = []

    def note(layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor):
            outputs.append((layer, output.shape))

    leaves = [layer for layer in module.modules() if not list(layer.children())]
    hooks = [layer.register_forward_hook(note) for layer in leaves]
    first = next(module.parameters())
    try:
        with torch.no_grad():
            dtype = first.dtype if example.is_floating_point() else example.dtype
            module(example.to(first.device, dtype))
    except (RuntimeError, TypeError, ValueError):
        return []
    finally:
        for hook in hooks:
            hook.remove()
    return outputs


def multiply_adds(layer: nn.Module, output: torch.Size) -> int:
    """Multiplications of a layer's weight matrix or filter for one input; 0 if it has none."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() < 2:
        return 0
    return weight.numel() * (output.numel() // weight.shape[0])
