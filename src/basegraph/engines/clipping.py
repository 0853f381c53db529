"""Gradient clipping: every node's gradient by its own norm."""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-6
"""What torch adds to a norm before dividing by it."""


def clipped(gradients: Tensor, bound: float) -> Tensor:
    """The gradients, scaled down where a node's norm is above a bound.

    The norm is that of a node's whole gradient, as `torch.nn.utils.clip_grad_norm_` has it. Nothing
    waits for a device.

    Args:
        gradients: (nodes, parameters), or (parameters,) of one node.
        bound: The largest norm; 0 for none.

    Example:
        >>> clipped(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), bound=1.0)
        tensor([[0.6000, 0.8000],
                [0.3000, 0.4000]])

    """
    if not bound:
        return gradients
    norms = torch.linalg.vector_norm(gradients, dim=-1, keepdim=True)
    return gradients * (bound / (norms + TINY)).clamp(max=1.0)
