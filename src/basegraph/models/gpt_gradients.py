"""Losses and gradients of the transformer of all nodes, with the backward pass written by hand.

`stacked_gpt.py` leaves the backward pass to autograd and a compiler. On a GPU this is quicker:

- Queries, keys and values stay in the array that their product wrote, turned in place; attention
  reads them there, and their gradients come back in one such array. Nothing is copied or stacked.
- A norm's weight is folded into the matrix after it when that is rounded for the products: (x̂ · w)
  Mᵀ = x̂ (M diag w)ᵀ. So its gradient comes from the matrix's, Σ over outputs, instead of from
  another pass over all tokens; and x̂ is all that the backward pass needs of x, to which products
  can then add in place.
- Gradients of weights are written by their products into the flat vector of float32, and those of
  the embedding are added to what the loss has left there.

The arithmetic between products is `transformer_kernels.py` on a GPU and `transformer_steps.py`
elsewhere, where it serves to test this file.

Where the time of a captured step goes on an H200 (torch 2.11): 8 nodes, 131,072 tokens, `gpt-20m`,
`adamw` over `base:k=1`, one step under torch's profiler.

| | ms | |
| --- | --- | --- |
| products | 20.4 | 13.4 TFLOP, 655 TFLOP/s; a large product reaches 790 |
| attention by cuDNN | 9.4 | 2.1 TFLOP; 1.3 ms of it prepares and rounds gradients |
| steps between products | 7.7 | SwiGLU 3.5, norms 2.2, rotations 1.9, others 0.1 |
| logits with their exponentials | 6.0 | 2.7 TFLOP; a product alone would take 4.7 |
| update and mixing | 1.5 | ten passes over the parameters |
| rounding weights, sums, copies | 1.3 | |
| together | 46.4 | 442 kernels |

Steps in a row take 48.1 ms each, 2.72 million tokens per second; 52.8 with a softmax after the
logits. Not kept, as the step took as long or longer: gradients of weights on a second stream, a
softmax after every 512 or 1024 rows, twice as many logits at a time.

Shape legend: n nodes, b sequences of a node, t tokens of each, r = b·t rows of a node, w width,
h heads of size s, f feed-forward width, v vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from basegraph.models import kernels, transformer_kernels, transformer_steps
from basegraph.models.attention import Attended, attend, attend_backward, backend_of
from basegraph.models.gpt import EPSILON, GPT
from basegraph.models.linear_cross_entropy import losses_and_gradients, product_into

Views = dict[str, Tensor]
"""The parameters or gradients of all nodes by their names in the module, (n, *shape)."""


class Kept(NamedTuple):
    """What the backward pass of a block needs."""

    first: Tensor
    first_scale: Tensor
    attended: Attended
    second: Tensor
    second_scale: Tensor
    gate_up: Tensor
    activation: Tensor
    matrices: Views


def fits(module: GPT, device: torch.device, precision: str) -> bool:
    """Whether this is the way to go: in bf16 on a GPU, with Triton and heads that it can attend."""
    if device.type != "cuda" or precision != "bf16" or not kernels.AVAILABLE:
        return False
    return backend_of(module.heads, module.width // module.heads, device) is not None


class HandwrittenGPT:
    """views, tokens, targets, views of gradients to be written -> losses (n,).

    Args:
        module: Whose form it is; its parameters are not read.
        dtype: Of the products.
        chunk: Logits that the loss holds at a time; 0: a number that is good for the device.

    """

    def __init__(self, module: GPT, dtype: torch.dtype, chunk: int = 0) -> None:
        self.module = module
        self.dtype = dtype
        self.chunk = chunk

    @torch.no_grad()
    def __call__(
        self, views: Views, tokens_nbt: Tensor, targets_nbt: Tensor, gradients: Views
    ) -> Tensor:
        """The mean cross-entropy of each node's targets; its gradient is written."""
        n, b, t = tokens_nbt.shape
        steps = _steps_on(tokens_nbt.device)
        tokens = tokens_nbt.flatten(1).contiguous()
        turn = self.module.cos[:t], self.module.sin[:t]
        matrix = steps.rounded(views["embedding.weight"], self.dtype)
        first_rows = torch.arange(n, device=tokens.device)[:, None] * matrix.shape[1]
        x = matrix.flatten(0, 1).index_select(0, (tokens + first_rows).flatten()).view(n, b * t, -1)
        names = [f"blocks.{number}" for number in range(len(self.module.blocks))]
        kept = [self._forward(steps, views, name, x, b, turn) for name in names]
        normal, scale, hidden = steps.normalize(x, EPSILON, views["norm.weight"])
        losses, d_hidden = losses_and_gradients(
            hidden, matrix, targets_nbt.flatten(1), self.chunk, gradients["embedding.weight"]
        )
        del hidden, matrix
        d_x, d_weight = steps.normalize_backward(
            d_hidden, normal, scale, weight_nw=views["norm.weight"]
        )
        gradients["norm.weight"].copy_(d_weight)
        for name in reversed(names):
            self._backward(steps, views, gradients, name, kept.pop(), d_x, turn)
        steps.add_rows_(gradients["embedding.weight"], tokens, d_x)
        return losses

    def _forward(
        self, steps: Any, views: Views, name: str, x: Tensor, b: int, turn: tuple[Tensor, Tensor]
    ) -> Kept:
        """Add attention and the feed-forward network to x (n, r, w), in place."""
        n, r, w = x.shape
        norms = {
            "qkv": views[f"{name}.attention_norm.weight"],
            "out": None,
            "gate_up": views[f"{name}.ffn_norm.weight"],
            "down": None,
        }
        m = {
            layer: steps.rounded(views[f"{name}.{layer}.weight"], self.dtype, norm)
            for layer, norm in norms.items()
        }
        first, first_scale, _ = steps.normalize(x, EPSILON)
        qkv = torch.bmm(first, m["qkv"].transpose(1, 2))
        qkv = qkv.view(n * b, r // b, 3, self.module.heads, -1)
        steps.rotate_(qkv, *turn)
        attended = attend(qkv)
        x.baddbmm_(attended.y.view(n, r, w), m["out"].transpose(1, 2))
        second, second_scale, _ = steps.normalize(x, EPSILON)
        gate_up = torch.bmm(second, m["gate_up"].transpose(1, 2))
        activation = steps.swiglu(gate_up)
        x.baddbmm_(activation, m["down"].transpose(1, 2))
        return Kept(first, first_scale, attended, second, second_scale, gate_up, activation, m)

    def _backward(
        self,
        steps: Any,
        views: Views,
        gradients: Views,
        name: str,
        kept: Kept,
        d_x: Tensor,
        turn: tuple[Tensor, Tensor],
    ) -> None:
        """Turn d_x from the gradient of what the block returns into that of what it was given."""
        n, r, w = d_x.shape
        m = kept.matrices

        def write(layer: str, g_nro: Tensor, x_nri: Tensor, norm: str = "") -> None:
            matrix, weight = f"{name}.{layer}.weight", f"{name}.{norm}.weight"
            product_into(gradients[matrix], g_nro.transpose(1, 2), x_nri)
            if norm:
                steps.unfold_(gradients[matrix], views[matrix], views[weight], gradients[weight])

        write("down", d_x, kept.activation)
        d_gate_up = kept.gate_up
        steps.swiglu_backward_(torch.bmm(d_x, m["down"]), d_gate_up)
        write("gate_up", d_gate_up, kept.second, "ffn_norm")
        d_second = torch.bmm(d_gate_up, m["gate_up"])
        steps.normalize_backward(d_second, kept.second, kept.second_scale, d_x)
        y = kept.attended.y.view(n, r, w)
        write("out", d_x, y)
        d_y = torch.bmm(d_x, m["out"]).view(kept.attended.y.shape)
        d_qkv = steps.rotate_back(*attend_backward(kept.attended, d_y), *turn).view(n, r, 3 * w)
        write("qkv", d_qkv, kept.first, "attention_norm")
        d_first = torch.bmm(d_qkv, m["qkv"])
        steps.normalize_backward(d_first, kept.first, kept.first_scale, d_x)


def _steps_on(device: torch.device) -> Any:
    return transformer_kernels if device.type == "cuda" else transformer_steps
