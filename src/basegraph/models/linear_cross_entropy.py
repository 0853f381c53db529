"""The loss of a large vocabulary for all nodes, without the logits of the whole batch.

The product of 131,072 hidden vectors with a vocabulary of 32,000 is 17 GB in float32, more than
everything else of a step. Here it is made piece by piece in one buffer: logits, losses, the
gradient of the logits over them, and from it at once the gradients of hidden vectors and matrix. So
the whole backward pass happens in the forward pass, and what is kept is as large as the arguments.

torch.nn.functional.linear_cross_entropy (torch 2.13) does as much for one matrix; here each node
has its own, and the pieces are whole nodes where they fit: their matrix's gradient is then written
once and never added to.

On a GPU with room for its tiles, `vocabulary_kernels.py` leaves exponentials in place of logits,
and what they are to be divided by moves into the other factor of the products: no softmax passes
over them. Elsewhere `loss_kernels.py` reads and writes the logits once each. On an H200, for
131,072 tokens of 8 nodes, width 320, in bf16, the product with exponentials takes 6.0 ms, where a
product and the softmax take 4.7 and 5.1; the two other products take 7.1.

Shape legend: n nodes, r rows (tokens of a node), w width, v vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from basegraph.models import kernels, loss_kernels, vocabulary_kernels

CHUNK_ON_GPU = 2**29
"""Logits at a time on a GPU: 1 GiB in bf16, 16,384 tokens with a vocabulary of 32,000."""
CHUNK_ON_CPU = 2**22
"""Logits at a time on a CPU: a few times its cache."""
ALIGNED = 8
"""Rows of logits begin at multiples of so many numbers, or products take a slow path."""


def mean_losses(hidden_nrw: Tensor, matrix_nvw: Tensor, targets_nr: Tensor, chunk: int) -> Tensor:
    """The mean cross-entropy (n,) of each node's rows, in float32 or wider.

    Args:
        hidden_nrw: What is multiplied by the matrix, in the type of the products.
        matrix_nvw: In the same type.
        targets_nr: The right token of every row, int64.
        chunk: Logits at a time; 0: a number that is good for the device.

    """
    losses, _, _ = _with_gradients(hidden_nrw, matrix_nvw, targets_nr, chunk)
    return losses


def row_losses(hidden_nrw: Tensor, matrix_nvw: Tensor, targets_nr: Tensor, chunk: int) -> Tensor:
    """The cross-entropy (n, r) of every row, without gradients."""
    return _without_gradients(hidden_nrw, matrix_nvw, targets_nr, chunk)


def pieces(nodes: int, rows: int, vocabulary: int, chunk: int) -> Iterator[tuple[slice, slice]]:
    """Pieces of about equal size with at most `chunk` logits: whole nodes, or rows of one node.

    Example:
        >>> [(p.stop, q.stop) for p, q in pieces(5, 10, 100, chunk=2000)]
        [(1, 10), (3, 10), (5, 10)]
        >>> [(p.stop, q.stop) for p, q in pieces(1, 10, 100, chunk=600)]
        [(1, 5), (1, 10)]

    """
    if rows * vocabulary <= chunk:
        for some in _cut(nodes, chunk // (rows * vocabulary)):
            yield some, slice(0, rows)
        return
    for node in range(nodes):
        for some in _cut(rows, max(1, chunk // vocabulary)):
            yield slice(node, node + 1), some


def _cut(count: int, most: int) -> Iterator[slice]:
    parts = -(-count // most)
    for part in range(parts):
        yield slice(part * count // parts, (part + 1) * count // parts)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _empty_losses(hidden_nrw: Tensor) -> Tensor:
    return hidden_nrw.new_empty(hidden_nrw.shape[:2], dtype=_wide(hidden_nrw.dtype))


def _product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """Batched, or a plain product where there is one node, for which libraries are quicker."""
    if len(a) == 1:
        torch.mm(a[0], b[0], out=out[0])
    else:
        torch.bmm(a, b, out=out)


def _walk(
    hidden: Tensor,
    matrix: Tensor,
    targets: Tensor,
    chunk: int,
    losses_nr: Tensor,
    scale: float | None = None,
) -> Iterator[tuple[slice, slice, Tensor]]:
    """(nodes, rows, logits or their gradient) of one piece after another; writes the losses."""
    for n, r, logits in _rooms(hidden, matrix, chunk):
        losses, right = losses_nr[n, r], targets[n, r]
        _product(hidden[n, r], matrix[n].transpose(1, 2), logits)
        if hidden.is_cuda and kernels.AVAILABLE and losses.dtype == torch.float32:
            flat = logits.as_strided((losses.numel(), logits.shape[2]), (logits.stride(1), 1))
            loss_kernels.cross_entropy_(flat, right.reshape(-1), losses.view(-1), scale)
        else:
            _cross_entropy_(logits, right, losses, scale)
        yield n, r, logits


def _rooms(hidden: Tensor, matrix: Tensor, chunk: int) -> Iterator[tuple[slice, slice, Tensor]]:
    """(nodes, rows, room for their logits) of one piece after another, all in one buffer."""
    nodes, rows, vocabulary = *hidden.shape[:2], matrix.shape[1]
    chunk = chunk or (CHUNK_ON_GPU if hidden.is_cuda else CHUNK_ON_CPU)
    cut = list(pieces(nodes, rows, vocabulary, chunk))
    padded = -(-vocabulary // ALIGNED) * ALIGNED
    most = max((n.stop - n.start) * (r.stop - r.start) for n, r in cut)
    buffer = hidden.new_empty(most * padded)
    for n, r in cut:
        shape = (n.stop - n.start, r.stop - r.start, padded)
        yield n, r, buffer[: shape[0] * shape[1] * padded].view(shape)[..., :vocabulary]


def _cross_entropy_(logits: Tensor, targets: Tensor, losses: Tensor, scale: float | None) -> None:
    """What `loss_kernels.cross_entropy_` does, by operations of torch."""
    wide = logits.to(losses.dtype)
    at = targets[..., None]
    level = wide.logsumexp(dim=-1, keepdim=True)
    losses.copy_((level - wide.gather(-1, at)).squeeze(-1))
    if scale is not None:
        share = (wide - level).exp_()
        share.scatter_add_(-1, at, torch.full_like(level, -1.0))
        logits.copy_(share.mul_(scale))


def losses_and_gradients(
    hidden_nrw: Tensor, matrix_nvw: Tensor, targets_nr: Tensor, chunk: int, d_matrix_nvw: Tensor
) -> tuple[Tensor, Tensor]:
    """(losses (n,), d_hidden); the matrix's gradient is written in its own type, maybe wider."""
    losses = _empty_losses(hidden_nrw)
    d_hidden = torch.empty_like(hidden_nrw)
    by_exponentials = vocabulary_kernels.fits(hidden_nrw)
    slopes = _exponential_slopes if by_exponentials else _slopes
    for n, r, g, h, factors in slopes(hidden_nrw, matrix_nvw, targets_nr, chunk, losses):
        _product(g, matrix_nvw[n], d_hidden[n, r])
        if factors is not None:
            d_hidden[n, r].mul_(factors)
        into = d_matrix_nvw[n]
        if r.start:
            into = torch.empty_like(into)
        product_into(into, g.transpose(1, 2), h)
        if r.start:
            d_matrix_nvw[n].add_(into)
    return losses.mean(dim=1), d_hidden


Slopes = Iterator[tuple[slice, slice, Tensor, Tensor, Tensor | None]]
"""(nodes, rows, g, h, factors): the gradient of the mean losses in the logits is g · factors, and
h is hidden · factors; factors (n, r, 1), None: 1."""


def _slopes(
    hidden: Tensor, matrix: Tensor, targets: Tensor, chunk: int, losses_nr: Tensor
) -> Slopes:
    scale = 1.0 / hidden.shape[1]
    for n, r, g in _walk(hidden, matrix, targets, chunk, losses_nr, scale):
        yield n, r, g, hidden[n, r], None


def _exponential_slopes(
    hidden: Tensor, matrix: Tensor, targets: Tensor, chunk: int, losses_nr: Tensor
) -> Slopes:
    """By kernels that write exponentials in place of logits, once."""
    for n, r, g in _rooms(hidden, matrix, chunk):
        totals = vocabulary_kernels.exponentials(
            hidden[n, r], matrix[n], targets[n, r], g, losses_nr[n, r]
        )
        factors = (1.0 / hidden.shape[1] / totals)[..., None]
        h = torch.mul(hidden[n, r], factors, out=torch.empty_like(hidden[n, r]))
        yield n, r, g, h, factors


def product_into(out: Tensor, a: Tensor, b: Tensor) -> None:
    """A batched product written in the type of `out`, which may be wider than that of a and b."""
    if a.dtype == out.dtype:
        _product(a, b, out)
    elif not (a.is_cuda and _writes_wider(a.dtype, out.dtype, a.device)):
        out.copy_(torch.bmm(a, b))
    elif len(a) == 1:
        torch.mm(a[0], b[0], out_dtype=out.dtype, out=out[0])
    else:
        torch.bmm(a, b, out_dtype=out.dtype, out=out)


@lru_cache(maxsize=16)
def _writes_wider(dtype: torch.dtype, wider: torch.dtype, device: torch.device) -> bool:
    """Whether this torch has products whose results are wider than their factors."""
    ones = torch.ones(2, 16, 16, dtype=dtype, device=device)
    out = torch.zeros(2, 512, dtype=wider, device=device)[:, :256].view(2, 16, 16)
    try:
        torch.bmm(ones, ones, out_dtype=wider, out=out)
        torch.mm(ones[0], ones[0], out_dtype=wider, out=out[0])
    except (RuntimeError, TypeError, NotImplementedError):
        return False
    return bool((out == 16).all())


@torch.library.custom_op("basegraph::linear_cross_entropy", mutates_args=())
def _with_gradients(
    hidden: Tensor, matrix: Tensor, targets: Tensor, chunk: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(losses (n,), d_hidden, d_matrix)."""
    rows, vocabulary = hidden.shape[1], matrix.shape[1]
    losses = _empty_losses(hidden)
    d_hidden, d_matrix = torch.empty_like(hidden), torch.empty_like(matrix)
    most = chunk or (CHUNK_ON_GPU if hidden.is_cuda else CHUNK_ON_CPU)
    once = rows * vocabulary <= most
    total = None if once else torch.zeros_like(matrix, dtype=_wide(matrix.dtype))
    for n, r, gradient in _walk(hidden, matrix, targets, chunk, losses, 1.0 / rows):
        _product(gradient, matrix[n], d_hidden[n, r])
        _product(gradient.transpose(1, 2), hidden[n, r], d_matrix[n])
        if total is not None:
            total[n] += d_matrix[n]
    if total is not None:
        d_matrix.copy_(total)
    return losses.mean(dim=1), d_hidden, d_matrix


@_with_gradients.register_fake
def _(hidden: Tensor, matrix: Tensor, targets: Tensor, chunk: int) -> tuple[Tensor, Tensor, Tensor]:
    losses = hidden.new_empty(len(hidden), dtype=_wide(hidden.dtype))
    return losses, torch.empty_like(hidden), torch.empty_like(matrix)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], output[2])


def _backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    d_hidden, d_matrix = ctx.saved_tensors
    g_n11 = g[:, None, None]
    return (d_hidden * g_n11).to(d_hidden.dtype), (d_matrix * g_n11).to(d_matrix.dtype), None, None


_with_gradients.register_autograd(_backward, setup_context=_keep)


@torch.library.custom_op("basegraph::row_cross_entropy", mutates_args=())
def _without_gradients(hidden: Tensor, matrix: Tensor, targets: Tensor, chunk: int) -> Tensor:
    losses = _empty_losses(hidden)
    for _ in _walk(hidden, matrix, targets, chunk, losses):
        pass  # each piece leaves its losses
    return losses


@_without_gradients.register_fake
def _(hidden: Tensor, matrix: Tensor, targets: Tensor, chunk: int) -> Tensor:
    return _empty_losses(hidden)
