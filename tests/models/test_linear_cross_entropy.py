"""The loss of a large vocabulary in pieces: the same numbers as in one."""

from __future__ import annotations

import os

import pytest
import torch
from torch.nn import functional

from basegraph.models import kernels, loss_kernels
from basegraph.models.linear_cross_entropy import mean_losses, pieces, row_losses

needs_triton = pytest.mark.skipif(
    not kernels.AVAILABLE
    or not (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="no Triton, or neither a GPU nor TRITON_INTERPRET=1: its kernels are not tested",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def drawn(n, r, w, v, dtype=torch.float64):
    draws = torch.Generator().manual_seed(0)
    hidden = torch.randn(n, r, w, generator=draws, dtype=dtype).to(DEVICE).requires_grad_()
    matrix = torch.randn(n, v, w, generator=draws, dtype=dtype).to(DEVICE).requires_grad_()
    return hidden, matrix, torch.randint(0, v, (n, r), generator=draws).to(DEVICE)


def plain(hidden, matrix, targets):
    """(n, r): by the definition."""
    logits = torch.bmm(hidden, matrix.transpose(1, 2))
    return functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")


@pytest.mark.parametrize("v", [16, 19])
@pytest.mark.parametrize("chunk", [0, 1, 19 * 3, 19 * 7, 19 * 7 * 2, 19 * 7 * 4, 10**6])
def test_losses_and_gradients_do_not_depend_on_the_pieces(chunk, v):
    hidden, matrix, targets = drawn(5, 7, 6, v)
    expected = plain(hidden, matrix, targets)
    losses = mean_losses(hidden, matrix, targets, chunk)
    assert torch.allclose(losses, expected.mean(dim=1), rtol=1e-12)
    assert torch.allclose(row_losses(hidden, matrix, targets, chunk), expected, rtol=1e-12)
    weights = torch.arange(1.0, 6.0, device=DEVICE)
    ours = torch.autograd.grad(losses, (hidden, matrix), weights.double())
    reference = torch.autograd.grad(expected.mean(dim=1), (hidden, matrix), weights.double())
    for gradient, true in zip(ours, reference, strict=True):
        assert (gradient - true).norm() < 1e-12 * true.norm()


@pytest.mark.parametrize("chunk", [0, 40 * 5])
def test_bf16_logits_give_losses_in_float32(chunk):
    hidden, matrix, targets = drawn(3, 12, 16, 40, torch.bfloat16)
    exact = [part.detach().double().requires_grad_() for part in (hidden, matrix)]
    expected = plain(*exact, targets).mean(dim=1)
    losses = mean_losses(hidden, matrix, targets, chunk)
    assert losses.dtype == torch.float32
    assert torch.allclose(losses.double(), expected, rtol=0.01)
    ones = torch.ones_like(losses)
    ours = torch.autograd.grad(losses, (hidden, matrix), ones)
    reference = torch.autograd.grad(expected, exact, ones.double())
    for gradient, true in zip(ours, reference, strict=True):
        assert gradient.dtype == torch.bfloat16
        assert (gradient - true).norm() < 0.02 * true.norm()


def test_large_logits_do_not_overflow():
    hidden, matrix, targets = drawn(2, 3, 4, 9, torch.float32)
    losses = mean_losses(1e4 * hidden, matrix, targets, 0)
    assert torch.isfinite(losses).all()
    expected = plain(1e4 * hidden.double(), matrix.double(), targets).mean(dim=1)
    assert torch.allclose(losses.double(), expected, rtol=1e-5)


def test_pieces_are_everything_once_and_within_the_limit():
    for nodes in (1, 2, 5):
        for rows in (1, 4, 9):
            for chunk in (1, 10, 39, 40, 41, 95, 1000):
                seen = torch.zeros(nodes, rows)
                for n, r in pieces(nodes, rows, 10, chunk):
                    seen[n, r] += 1
                    assert (n.stop - n.start) * (r.stop - r.start) * 10 <= max(chunk, 10)
                assert seen.eq(1).all()


@needs_triton
@pytest.mark.parametrize("count", [5, 256, 1000])
@pytest.mark.parametrize("block", [128, loss_kernels.BLOCK])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernel(count, block, dtype, monkeypatch):
    monkeypatch.setattr(loss_kernels, "BLOCK", block)
    draws = torch.Generator().manual_seed(count)
    padded = -(-count // 8) * 8
    whole = (9 * torch.randn(6, padded, generator=draws)).to(DEVICE, dtype)
    logits, rest = whole[:, :count], whole[:, count:].clone()
    targets = torch.randint(0, count, (6,), generator=draws).to(DEVICE)
    targets[:2] = torch.tensor([0, count - 1])
    at = logits.double().requires_grad_()
    expected = functional.cross_entropy(at, targets, reduction="none")
    (slope,) = torch.autograd.grad(expected.sum() / 3, at)
    losses = torch.full((6,), torch.nan, device=DEVICE)
    before = logits.clone()
    close = {"rtol": 1e-6, "atol": 1e-6 * float(before.abs().max())}  # differences of logits
    loss_kernels.cross_entropy_(logits, targets, losses, None)
    assert torch.allclose(losses.double(), expected, **close)
    assert torch.equal(logits, before)
    losses.fill_(torch.nan)
    loss_kernels.cross_entropy_(logits, targets, losses, 1 / 3)
    assert torch.allclose(losses.double(), expected, **close)
    rounding = torch.finfo(dtype).eps  # the interpreter does not round bf16 to nearest
    if dtype == torch.float32:
        rounding *= float(before.abs().max())  # of the exponents
    assert (logits - slope).norm() < rounding * slope.norm()
    assert torch.equal(whole[:, count:], rest)
