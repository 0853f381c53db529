"""The Triton kernels: on a GPU, or with TRITON_INTERPRET=1 on a CPU."""

from __future__ import annotations

import os

import pytest
import torch
from torch.nn import functional

from basegraph.models import kernels, run_kernels
from basegraph.models.stacked_layers import _taps

needs_triton = pytest.mark.skipif(
    not kernels.AVAILABLE
    or not (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="no Triton, or neither a GPU nor TRITON_INTERPRET=1: its kernels are not tested",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@needs_triton
@pytest.mark.parametrize(
    ("n", "c", "o", "b", "h", "w", "k"),
    [
        (2, 1, 6, 3, 12, 10, 5),
        (3, 6, 16, 2, 9, 9, 5),
        (2, 3, 20, 3, 8, 8, 3),
        (2, 3, 5, 1, 7, 5, 1),
        (2, 4, 40, 2, 6, 7, 3),
        (1, 8, 3, 40, 5, 9, 2),
    ],
)
@pytest.mark.parametrize(
    "convolution", [kernels.small_convolution, run_kernels.convolution_in_runs]
)
def test_small_convolutions_and_their_gradients(convolution, n, c, o, b, h, w, k):
    runs = convolution is run_kernels.convolution_in_runs
    # On a GPU full precision by tensor cores' blocks takes a compiler minutes.
    precision, error = ("tf32", 3e-3) if runs and DEVICE == "cuda" else ("float32", 1e-6)
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(n, c, b, h, w, generator=draws).to(DEVICE).requires_grad_()
    weight = torch.randn(n, o, c, k, k, generator=draws).to(DEVICE).requires_grad_()
    bias = torch.randn(n, o, generator=draws).to(DEVICE).requires_grad_()
    y = convolution(x, weight, precision, bias)
    truth = torch.stack(
        [
            functional.conv2d(a.transpose(0, 1).double(), w.double(), b.double())
            for a, w, b in zip(x, weight, bias, strict=True)
        ]
    ).transpose(1, 2)
    assert (y - truth).norm() < error * truth.norm()
    slope = torch.randn(y.shape, generator=draws).to(DEVICE)
    ours = torch.autograd.grad(y, (x, weight, bias), slope)
    reference = torch.autograd.grad(truth, (x, weight, bias), slope.double())
    for gradient, true in zip(ours, reference, strict=True):
        assert (gradient - true).norm() < error * true.norm()


@needs_triton
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [5, 8])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_columns_and_their_gradient(stride, size, padding):
    x = torch.randn(2, 3, 2, size, size + 1, device=DEVICE, requires_grad=True)
    high, wide = padding
    padded = functional.pad(x, (wide, wide, high, high))
    ours = kernels.columns(x, 3, 2, stride, padding)
    truth = _taps(padded, 3, 2, stride, stride)
    assert torch.equal(ours, truth)
    slope = torch.randn_like(truth)
    (a,) = torch.autograd.grad(ours, x, slope)
    (b,) = torch.autograd.grad(truth, x, slope)
    assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU has the limit that this is about")
def test_columns_of_more_planes_than_a_grid_has_rows():
    x = torch.randn(70_000, 1, 1, 3, 3, device=DEVICE)
    assert torch.equal(kernels.columns(x, 2, 2, 1), _taps(x, 2, 2, 1, 1))
