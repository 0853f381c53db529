"""A decoder-only transformer in the style of Llama, as a plain module for one node.

RMSNorm before every sublayer, rotary positions, SwiGLU, one matrix for embedding and output, no
biases: what small language models are made of today. `stacked_gpt.py` computes the same for all
nodes at once.

Shape legend: b sequences, t tokens of each, w width, h heads of size s = w / h, f feed-forward
width, v vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from basegraph.errors import InvalidArgument

EPSILON = 1e-5
"""Of RMSNorm, added to the mean square."""
ROTARY_BASE = 10_000.0
"""Of the wavelengths of rotary positions (Su et al. 2021)."""
MOST_PARAMETERS, MOST_LAYERS = 2**40, 10_000
"""Of a model: more are a mistake."""
INITIAL_STD = 0.02
"""Of all matrices at the start; those that write to the residual stream have less."""
FFN_MULTIPLE = 64
"""The default feed-forward width is a multiple of it."""


def rotate(x_bhts: Tensor, cos_ts: Tensor, sin_ts: Tensor) -> Tensor:
    """Turn the pairs (i, i + s/2) of every head by angles that grow with the position.

    Computed in the type of the angles, which is float32 or wider; the result has that of x.
    """
    first, second = x_bhts.chunk(2, dim=-1)
    turned = (first * cos_ts - second * sin_ts, second * cos_ts + first * sin_ts)
    return torch.cat(turned, dim=-1).to(x_bhts.dtype)


def next_token_loss(logits_btv: Tensor, targets_bt: Tensor) -> Tensor:
    """The cross-entropy of the next token in nats, the mean over all tokens.

    Example:
        >>> loss = next_token_loss(torch.zeros(1, 3, 8), torch.tensor([[0, 5, 7]]))
        >>> math.isclose(loss, math.log(8), rel_tol=1e-6)
        True

    """
    return functional.cross_entropy(logits_btv.flatten(0, -2), targets_bt.flatten())


class Block(nn.Module):
    """Attention, then the feed-forward network; each reads the normalized residual stream."""

    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(width, EPSILON)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width, EPSILON)
        self.gate_up = nn.Linear(width, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x_btw: Tensor, cos_ts: Tensor, sin_ts: Tensor) -> Tensor:
        """x -> x + attention(norm(x)) -> x + ffn(norm(x))"""
        b, t, w = x_btw.shape
        qkv = self.qkv(self.attention_norm(x_btw)).view(b, t, 3, self.heads, -1)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        q, k = rotate(q, cos_ts, sin_ts), rotate(k, cos_ts, sin_ts)
        y_bhts = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_btw = x_btw + self.out(y_bhts.transpose(1, 2).reshape(b, t, w))
        gate, up = self.gate_up(self.ffn_norm(x_btw)).chunk(2, dim=-1)
        return x_btw + self.down(functional.silu(gate) * up)


class GPT(nn.Module):
    """A causal language model: tokens (b, t) -> logits (b, t, v), t at most the context.

    Args:
        vocabulary: How many tokens there are.
        layers: Blocks of attention and feed-forward network.
        width: Of the residual stream.
        heads: Of attention; they divide the width into heads of even size.
        context: The most tokens that are read at once.
        ffn: Feed-forward width; 0: 8/3 of the width, rounded up to a multiple of 64.

    Raises:
        InvalidArgument: If a number is too small, or the heads do not divide the width.

    Example:
        >>> model = GPT(256, layers=2, width=64, heads=2, context=32)
        >>> model(torch.zeros(1, 8, dtype=torch.int64)).shape, model.ffn
        (torch.Size([1, 8, 256]), 192)

    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        vocabulary: int,
        *,
        layers: int = 8,
        width: int = 320,
        heads: int = 5,
        context: int = 1024,
        ffn: int = 0,
    ) -> None:
        super().__init__()
        _refuse_sizes(vocabulary, layers, width, heads, context, ffn)
        self.vocabulary, self.context, self.width, self.heads = vocabulary, context, width, heads
        self.ffn = ffn or -(-8 * width // (3 * FFN_MULTIPLE)) * FFN_MULTIPLE
        count = width * (vocabulary + layers * (4 * width + 3 * self.ffn))
        if count > MOST_PARAMETERS:
            sizes = f"gpt:layers={layers},width={width},vocabulary={vocabulary}"
            raise InvalidArgument("model", sizes, f"has {count:.1g} parameters; at most 2^40 fit")
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, self.ffn) for _ in range(layers))
        self.norm = nn.RMSNorm(width, EPSILON)
        half = width // heads // 2
        frequency = ROTARY_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(context, dtype=torch.float64)[:, None] * frequency
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)
        self._draw()

    def forward(self, tokens_bt: Tensor) -> Tensor:
        """The logits (b, t, v) of the token after each."""
        t = tokens_bt.shape[-1]
        if t > self.context:
            raise ValueError(f"{t} tokens are more than the context of {self.context}")
        x_btw = self.embedding(tokens_bt)
        for block in self.blocks:
            x_btw = block(x_btw, self.cos[:t], self.sin[:t])
        return functional.linear(self.norm(x_btw), self.embedding.weight)

    def _draw(self) -> None:
        """Draw all matrices; the two per block that end in the residual stream get less."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            ends = name.endswith(("out.weight", "down.weight"))
            scale = 1 / math.sqrt(2 * len(self.blocks)) if ends else 1.0
            nn.init.normal_(parameter, std=INITIAL_STD * scale)


def _refuse_sizes(
    vocabulary: int, layers: int, width: int, heads: int, context: int, ffn: int
) -> None:
    sizes = {"layers": layers, "width": width, "heads": heads}
    for name, value in sizes.items():
        if value < 1:
            raise InvalidArgument(name, value, "must be an integer ≥ 1")
    if layers > MOST_LAYERS:
        raise InvalidArgument("layers", layers, f"must be at most {MOST_LAYERS}")
    for name, value in {"vocabulary": vocabulary, "context": context}.items():
        if value < 2:
            raise InvalidArgument(name, value, "must be an integer ≥ 2")
    if ffn < 0:
        raise InvalidArgument("ffn", ffn, "must be an integer ≥ 1, or 0 for 8/3 of the width")
    if width % heads:
        raise InvalidArgument("heads", heads, f"must divide the width, {width}")
    if width // heads % 2:
        raise InvalidArgument(
            "heads", heads, f"must give heads of even size; {width} / {heads} = {width // heads}"
        )
