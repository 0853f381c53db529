"""Group normalization with what is around it: on a GPU, or with TRITON_INTERPRET=1 on a CPU."""

from __future__ import annotations

import os
from itertools import product

import pytest
import torch
from torch.nn import functional

from basegraph.models import group_norm_kernels, kernels

needs_triton = pytest.mark.skipif(
    not kernels.AVAILABLE
    or not (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="no Triton, or neither a GPU nor TRITON_INTERPRET=1: its kernels are not tested",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def by_layers(x, weight, bias, groups, shift=None, other=None, rectifies=False, pools=False):
    """Layer after layer, node by node."""
    rows = []
    for i, a_cbhw in enumerate(x):
        a = a_cbhw.transpose(0, 1)
        if shift is not None:
            a = a + shift[i][:, None, None]
        y = functional.group_norm(a, groups, weight[i], bias[i])
        if other is not None:
            y = y + other[i].transpose(0, 1)
        y = y.relu() if rectifies else y
        rows.append(functional.max_pool2d(y, 2) if pools else y)
    return torch.stack(rows).transpose(1, 2)


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE)


WAYS = [
    {"shifts": shifts, "adds": adds, "rectifies": rectifies, "pools": pools}
    for shifts, adds, rectifies, pools in product([False, True], repeat=4)
    if not (adds and pools)
]


@needs_triton
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(k for k in way if way[k]) or "alone")
@pytest.mark.parametrize(
    ("n", "c", "groups", "b", "h", "w"),
    [
        (2, 6, 2, 3, 4, 8),
        (2, 8, 2, 6, 2, 2),
        (1, 12, 1, 2, 16, 64),  # three tiles of four channels or more
    ],
)
def test_value_and_gradients_are_those_of_the_layers(n, c, groups, b, h, w, way):
    x, weight, bias = (drawn(*s).requires_grad_() for s in ((n, c, b, h, w), (n, c), (n, 1 + c)))
    bias = bias[:, 1:]
    inputs = {"x_ncbhw": 3 + 2 * x, "weight": weight, "bias": bias}
    if way["shifts"]:
        inputs["shift"] = drawn(n, c + 2)[:, 2:].requires_grad_()
    if way["adds"]:
        inputs["other"] = drawn(n, c, b, h, w).flip(0).requires_grad_()
    how = {"rectifies": way["rectifies"], "pools": way["pools"]}
    assert group_norm_kernels.fits(x, pools=way["pools"])
    y = group_norm_kernels.group_norm(**inputs, groups=groups, eps=1e-5, **how)
    wide = {name: value.double() for name, value in inputs.items()}
    truth = by_layers(wide.pop("x_ncbhw"), **wide, groups=groups, **how)
    assert (y - truth).norm() < 1e-6 * truth.norm()
    slope = drawn(*y.shape)
    ours = torch.autograd.grad(y, list(inputs.values()), slope)
    reference = torch.autograd.grad(truth, list(inputs.values()), slope.double())
    for name, gradient, true in zip(inputs, ours, reference, strict=True):
        # What is added to a whole group changes nothing: a shift's gradient is what is left.
        scale = true.norm() if name != "shift" or c > groups else slope.norm()
        assert (gradient - true).norm() < 2e-5 * scale, name


@needs_triton
@pytest.mark.parametrize("pools", [False, True])
def test_bf16_images_are_as_close_as_their_rounding(pools):
    x = drawn(2, 8, 4, 8, 8).bfloat16()
    weight, bias = drawn(2, 8), drawn(2, 9)[:, 1:]
    slope = drawn(2, 8, 4, *([4, 4] if pools else [8, 8])).bfloat16()
    how = {"rectifies": True, "pools": pools}

    def with_gradients(function, x, weight, *rest):
        x, weight = x.requires_grad_(), weight.requires_grad_()
        y = function(x, weight, *rest, **how)
        return y, *torch.autograd.grad(y, (x, weight), slope.to(y.dtype))

    ours = with_gradients(group_norm_kernels.group_norm, x.clone(), weight.clone(), bias, 2, 1e-5)
    assert ours[0].dtype == torch.bfloat16
    truths = with_gradients(by_layers, x.double(), weight.double(), bias.double(), 2)
    for result, truth in zip(ours, truths, strict=True):
        # A GPU rounds to 2^-9; Triton's interpreter cuts off, 2^-8.
        assert (result.double() - truth).norm() < 2**-8 * truth.norm()


@needs_triton
def test_of_equal_pixels_the_first_gets_the_slope():
    x = torch.zeros(1, 1, 1, 2, 4, device=DEVICE)
    x[..., 2:] = 1
    x.requires_grad_()
    weight, bias = torch.ones(1, 1, device=DEVICE), torch.full((1, 1), 9.0, device=DEVICE)
    slope, how = drawn(1, 1, 1, 1, 2), {"rectifies": True, "pools": True}
    y = group_norm_kernels.group_norm(x, weight, bias, 1, 1e-5, **how)
    (ours,) = torch.autograd.grad(y, x, slope)
    (true,) = torch.autograd.grad(by_layers(x, weight, bias, 1, **how), x, slope)
    assert torch.allclose(ours, true, atol=1e-5)


@needs_triton
@pytest.mark.parametrize("pools", [False, True])
def test_what_is_no_number_stays_so(pools):
    x = drawn(1, 2, 2, 4, 4)
    x[0, 0, 1, 2, 3] = torch.nan
    ones = torch.ones(1, 2, device=DEVICE)
    y = group_norm_kernels.group_norm(x, ones, ones, 1, 1e-5, rectifies=True, pools=pools)
    assert y[0, :, 1].isnan().all()
    assert not y[0, :, 0].isnan().any()


@needs_triton
def test_the_variance_of_numbers_far_from_zero_keeps_its_digits():
    x = 1000 + drawn(1, 64, 1, 16, 16)
    ones, zeros = torch.ones(1, 64, device=DEVICE), torch.zeros(1, 64, device=DEVICE)
    y = group_norm_kernels.group_norm(x, ones, zeros, 2, 1e-5)
    truth = by_layers(x.double(), ones.double(), zeros.double(), 2)
    assert (y - truth).norm() < 1e-4 * truth.norm()


def test_odd_and_other_images_do_not_fit():
    assert not group_norm_kernels.fits(torch.empty(1, 6, 1, 6, 8))
    assert not group_norm_kernels.fits(torch.empty(1, 6, 1, 1, 4), pools=True)
    assert not group_norm_kernels.fits(torch.empty(1, 6, 1, 8, 8, dtype=torch.float64))
    x = torch.empty(1, 6, 1, 8, 8)
    assert group_norm_kernels.fits(x, x) == kernels.AVAILABLE
    assert not group_norm_kernels.fits(x, torch.empty(1, 6, 1, 1, 1))
