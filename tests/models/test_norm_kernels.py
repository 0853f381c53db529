"""Group norm, ReLU and pooling in one pass: on a GPU, or with TRITON_INTERPRET=1 on a CPU."""

from __future__ import annotations

import os

import pytest
import torch
from torch.nn import functional

from basegraph.models import kernels, norm_kernels

needs_triton = pytest.mark.skipif(
    not kernels.AVAILABLE
    or not (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="no Triton, or neither a GPU nor TRITON_INTERPRET=1: its kernels are not tested",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def by_layers(x, weight, bias, groups, last):
    """The three layers, node by node."""
    rows = []
    for a_cbhw, w, b in zip(x, weight, bias, strict=True):
        a = a_cbhw.transpose(0, 1)
        if last:
            pooled = functional.max_pool2d(a.relu(), 2)
            rows.append(functional.group_norm(pooled, groups, w, b))
        else:
            rows.append(functional.max_pool2d(functional.group_norm(a, groups, w, b).relu(), 2))
    return torch.stack(rows).transpose(1, 2)


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE)


@needs_triton
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("n", "c", "groups", "b", "h", "w"),
    [
        (2, 6, 2, 3, 8, 6),
        (3, 16, 2, 2, 4, 4),
        (1, 5, 1, 2, 2, 10),
        (2, 3, 3, 1, 4, 6),
        (1, 16, 8, 2, 4, 4),
    ],
)
def test_value_and_gradients_are_those_of_the_three_layers(n, c, groups, b, h, w, last):
    x, weight, bias = (drawn(*s).requires_grad_() for s in ((n, c, b, h, w), (n, c), (n, 1 + c)))
    bias = bias[:, 1:]
    assert norm_kernels.fits(x, groups)
    y = norm_kernels.norm_relu_pool(x, weight, bias, groups, 1e-5, last=last)
    truth = by_layers(x.double(), weight.double(), bias.double(), groups, last)
    assert (y - truth).norm() < 1e-6 * truth.norm()
    slope = drawn(*y.shape)
    ours = torch.autograd.grad(y, (x, weight, bias), slope)
    reference = torch.autograd.grad(truth, (x, weight, bias), slope.double())
    for gradient, true in zip(ours, reference, strict=True):
        assert (gradient - true).norm() < 1e-5 * true.norm()


@needs_triton
@pytest.mark.parametrize("last", [False, True])
def test_of_equal_pixels_the_first_gets_the_slope(last):
    x = torch.zeros(1, 1, 1, 2, 4, device=DEVICE)
    x[..., 2:] = 1
    x.requires_grad_()
    weight, bias = torch.ones(1, 1, device=DEVICE), torch.full((1, 1), 9.0, device=DEVICE)
    slope = drawn(1, 1, 1, 1, 2)
    y = norm_kernels.norm_relu_pool(x, weight, bias, 1, 1e-5, last=last)
    (ours,) = torch.autograd.grad(y, x, slope)
    (true,) = torch.autograd.grad(by_layers(x, weight, bias, 1, last), x, slope)
    assert torch.allclose(ours, true, atol=1e-5)


@needs_triton
@pytest.mark.parametrize("last", [False, True])
def test_what_is_no_number_stays_so(last):
    x = drawn(1, 2, 2, 4, 4)
    x[0, 0, 1, 2, 3] = torch.nan
    ones = torch.ones(1, 2, device=DEVICE)
    y = norm_kernels.norm_relu_pool(x, ones, ones, 1, 1e-5, last=last)
    assert y[0, :, 1].isnan().all()
    assert not y[0, :, 0].isnan().any()


def test_large_groups_and_odd_images_do_not_fit():
    assert not norm_kernels.fits(torch.empty(1, 128, 1, 16, 16), 2)
    assert not norm_kernels.fits(torch.empty(1, 6, 1, 7, 8), 2)
    assert not norm_kernels.fits(torch.empty(1, 6, 1, 8, 8, dtype=torch.float64), 2)
