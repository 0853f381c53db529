"""The transformer of `gpt.py` for all nodes at once, and where the time of its step goes.

Every matrix product is one batched product over the node axis, attention is one call over nodes ×
sequences, and the loss never holds the logits of the whole batch (`linear_cross_entropy.py`). With
`precision="bf16"` products and what is kept between them are bf16, parameters and gradients stay
float32, and means of squares, rotations and losses are computed in float32. In bf16 on a GPU,
training takes the backward pass of `gpt_gradients.py` instead of autograd's.

What one step of 131,072 tokens at 8 nodes has to do with `gpt-20m` (8 layers, width 320, 5 heads,
feed-forward 896, vocabulary 32,000, context 1024), on an H200 that does 790 TFLOP/s and moves 4.25
TB/s; `gpt_gradients.py` says what was measured:

- vocabulary: 3 products, 8.1 TFLOP; 8.4 GB of exponentials of logits cross the memory three times.
- blocks: 10.2 million weights, 6 operations each per token: 8.0 TFLOP. The inner dimension of most
  products is 320, so a product writes one number for every 320 multiply-adds, near the balance of
  memory and arithmetic; hence few, wide products: q, k, v in one, gate and up in one.
- attention: 2.1 TFLOP, half of the squares being masked.
- elementwise passes: the residual stream is 84 MB in bf16, gate and up together 470 MB. Norms,
  rotations, SwiGLU and sums read and write about 30 GB forward and backward, 7 ms.
- update and mixing: 653 MB for each vector in float32; with AdamW ten of them are moved, 1.5 ms.

Shape legend: n nodes, b sequences, t tokens of each, r = b·t rows of a node, w width, h heads of
size s, f feed-forward width, v vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from basegraph.models.gpt import EPSILON, GPT, rotate
from basegraph.models.linear_cross_entropy import mean_losses, row_losses

Views = dict[str, Tensor]
"""The parameters of all nodes by their names in the module, (n, *shape)."""


class StackedGPT:
    """The module as a function of all nodes' parameters.

    Args:
        module: Whose form it is; its parameters are not read.
        precision: Of products: "bf16", or anything else for the type of the parameters.
        chunk: Logits that the loss holds at a time; 0: a number that is good for the device.

    Example:
        >>> module = GPT(16, layers=1, width=8, heads=2, context=4)
        >>> views = {name: p[None] for name, p in module.named_parameters()}
        >>> tokens = torch.zeros(1, 3, 4, dtype=torch.int64)
        >>> torch.allclose(StackedGPT(module)(views, tokens)[0], module(tokens[0]), atol=1e-6)
        True

    """

    def __init__(self, module: GPT, precision: str = "float32", chunk: int = 0) -> None:
        self.module = module
        self.precision = precision
        self.chunk = chunk

    def takes(self, samples: Tensor) -> bool:
        """Whether these are tokens (n, b, t), at most as many as the context."""
        whole = not samples.is_floating_point() and samples.dim() == 3
        return whole and samples.shape[2] <= self.module.context

    def __call__(self, views: Views, tokens_nbt: Tensor) -> Tensor:
        """The logits (n, b, t, v) of the token after each, in the type of the parameters."""
        matrix = views["embedding.weight"]
        x_nrw = self._hidden(views, tokens_nbt)
        logits = torch.bmm(x_nrw, self._weight(views, "embedding").transpose(1, 2))
        return logits.view(*tokens_nbt.shape, -1).to(matrix.dtype)

    def losses(self, views: Views, tokens_nbt: Tensor, targets_nbt: Tensor) -> Tensor:
        """The mean cross-entropy (n,) of each node's targets."""
        hidden, matrix = self._hidden(views, tokens_nbt), self._weight(views, "embedding")
        return mean_losses(hidden, matrix, targets_nbt.flatten(1), self.chunk)

    def sample_losses(self, views: Views, tokens_nbt: Tensor, targets_nbt: Tensor) -> Tensor:
        """The mean cross-entropy (n, b) of each sequence, without gradients."""
        hidden, matrix = self._hidden(views, tokens_nbt), self._weight(views, "embedding")
        losses = row_losses(hidden, matrix, targets_nbt.flatten(1), self.chunk)
        return losses.view(tokens_nbt.shape).mean(dim=2)

    def _hidden(self, views: Views, tokens_nbt: Tensor) -> Tensor:
        """The normalized residual stream (n, r, w) after the last block."""
        n, b, t = tokens_nbt.shape
        matrix = views["embedding.weight"]
        nodes = torch.arange(n, device=tokens_nbt.device)[:, None]
        x_nrw = self._rounded(matrix[nodes, tokens_nbt.flatten(1)])
        turn = self.module.cos[:t], self.module.sin[:t]
        for number in range(len(self.module.blocks)):
            x_nrw = self._block(views, f"blocks.{number}", x_nrw, b, turn)
        return _normalized(x_nrw, views["norm.weight"])

    def _block(
        self, views: Views, name: str, x_nrw: Tensor, b: int, turn: tuple[Tensor, Tensor]
    ) -> Tensor:
        n, r, w = x_nrw.shape
        h_nrw = _normalized(x_nrw, views[f"{name}.attention_norm.weight"])
        qkv = self._product(views, f"{name}.qkv", h_nrw).view(
            n * b, r // b, 3, self.module.heads, -1
        )
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        q, k = rotate(q, *turn), rotate(k, *turn)
        y_bhts = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y_nrw = y_bhts.transpose(1, 2).reshape(n, r, w)
        x_nrw = x_nrw + self._product(views, f"{name}.out", y_nrw)
        h_nrw = _normalized(x_nrw, views[f"{name}.ffn_norm.weight"])
        gate, up = self._product(views, f"{name}.gate_up", h_nrw).chunk(2, dim=-1)
        return x_nrw + self._product(views, f"{name}.down", functional.silu(gate) * up)

    def _product(self, views: Views, layer: str, x_nri: Tensor) -> Tensor:
        return torch.bmm(x_nri, self._weight(views, layer).transpose(1, 2))

    def _weight(self, views: Views, layer: str) -> Tensor:
        return self._rounded(views[f"{layer}.weight"])

    def _rounded(self, x: Tensor) -> Tensor:
        return x.bfloat16() if self.precision == "bf16" else x


def _normalized(x_nrw: Tensor, weight_nw: Tensor) -> Tensor:
    """RMSNorm with statistics in float32 or wider."""
    x = x_nrw.to(weight_nw.dtype)
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + EPSILON)
    return (x * scale * weight_nw[:, None]).to(x_nrw.dtype)
