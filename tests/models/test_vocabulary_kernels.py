"""Exponentials of logits instead of logits: the same losses and gradients.

Kernels are tested on a GPU, or with TRITON_INTERPRET=1 on a CPU.
"""

from __future__ import annotations

import os

import pytest
import torch
from torch.nn import functional

from basegraph.models import vocabulary_kernels
from basegraph.models.linear_cross_entropy import losses_and_gradients

ON_GPU = torch.cuda.is_available()
DEVICE, DTYPE = ("cuda", torch.bfloat16) if ON_GPU else ("cpu", torch.float32)
needs_triton = pytest.mark.skipif(
    not vocabulary_kernels.AVAILABLE
    or not (
        os.environ.get("TRITON_INTERPRET") == "1"
        or (ON_GPU and vocabulary_kernels.fits(torch.zeros(1, 1, 8, device=DEVICE, dtype=DTYPE)))
    ),
    reason="no Triton, or neither a large GPU nor TRITON_INTERPRET=1: its kernels are not tested",
)
SHAPES = [(2, 40, 24, 100), (1, 16, 32, 64), (3, 5, 8, 33), (1, 300, 320, 1000)]


@pytest.fixture
def small_tiles(monkeypatch):
    if not ON_GPU:  # several tiles each way, or the interpreter takes long
        for name, size in {"ROWS": 16, "COLUMNS": 32, "DEPTH": 16}.items():
            monkeypatch.setattr(vocabulary_kernels, name, size)


def drawn(n, r, w, v, scale, dtype=DTYPE):
    draws = torch.Generator().manual_seed(v)
    hidden = torch.randn(n, r, w, generator=draws).to(DEVICE, dtype)
    matrix = (scale * torch.randn(n, v, w, generator=draws) / w**0.5).to(DEVICE, dtype)
    targets = torch.randint(0, v, (n, r), generator=draws).to(DEVICE)
    targets[0, 0], targets[-1, -1] = 0, v - 1
    return hidden, matrix, targets


def exact(hidden, matrix, targets):
    """Losses, and the gradients of their sum in the logits, in float64."""
    logits = torch.bmm(hidden.double(), matrix.double().transpose(1, 2)).requires_grad_()
    losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    (slopes,) = torch.autograd.grad(losses.sum(), logits)
    return losses.detach(), slopes


def by_kernels(hidden, matrix, targets):
    """The same; what surrounds the results in memory stays as it is."""
    n, r, v = *hidden.shape[:2], matrix.shape[1]
    padded = -(-v // 8) * 8
    room = torch.full((n, r, padded + 8), torch.nan, device=DEVICE, dtype=hidden.dtype)
    whole = torch.full((n, r + 3), torch.nan, device=DEVICE)
    losses = whole[:, :r]
    totals = vocabulary_kernels.exponentials(hidden, matrix, targets, room[..., :v], losses)
    assert room[..., padded:].isnan().all()
    assert whole[:, r:].isnan().all()
    return losses, room[..., :v].double() / totals[..., None].double()


@needs_triton
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("scale", [0.1, 3.0, 18.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_exponentials_are_the_gradient_but_for_a_factor(shape, scale):
    arguments = drawn(*shape, scale)
    losses, slopes = by_kernels(*arguments)
    true_losses, true_slopes = exact(*arguments)
    assert true_losses.max() < 131
    assert torch.allclose(losses.double(), true_losses, rtol=1e-6, atol=2e-6 * scale)
    rounding = 4e-3 if ON_GPU else 1e-6 * max(1, scale)
    assert (slopes - true_slopes).norm() < rounding * true_slopes.norm()


@needs_triton
@pytest.mark.usefixtures("small_tiles")
def test_a_target_that_is_nearly_certain():
    """Its gradient is minus the sum of the others', not what is left of 1 - 1."""
    hidden, matrix, targets = drawn(1, 16, 32, 64, 0.0)
    hidden[:], matrix[0, 0], targets[:] = 1.0, 0.25, 0  # logits 8 and 0
    losses, slopes = by_kernels(hidden, matrix, targets)
    assert torch.allclose(losses, torch.tensor(63 * 2.718281828**-8, device=DEVICE).log1p())
    assert torch.allclose(slopes.sum(dim=2), torch.zeros(1, 16, device=DEVICE).double(), atol=1e-4)


@needs_triton
@pytest.mark.usefixtures("small_tiles")
def test_extremes_stay_what_they_are():
    hidden, matrix, targets = drawn(2, 16, 32, 64, 1.0)
    matrix[0, 3], targets[0] = 50 * hidden[0, 5], 0  # row 5 of the first node: above 131 nats
    losses, slopes = by_kernels(hidden, matrix, targets)
    true, _ = exact(hidden, matrix, targets)
    assert true[0, 5] > 1000
    assert losses[0, 5] > 131
    assert slopes.isfinite().all()
    assert torch.allclose(losses[1].double(), true[1], rtol=1e-5)
    for where in (hidden[0, 7], matrix[0, 9]):
        where[0] = torch.nan
        losses, _ = by_kernels(hidden, matrix, targets)
        assert losses[0, 7].isnan()
        assert losses[1].isfinite().all()


def plainly(hidden, matrix, targets, into, losses):
    """What the kernels do, by operations of torch."""
    logits = torch.bmm(hidden, matrix.transpose(1, 2))
    at = targets[..., None]
    powers = (logits - logits.gather(2, at)).exp()
    totals = powers.sum(dim=2)
    into.copy_(powers.scatter(2, at, 1 - totals[..., None]))
    losses.copy_(totals.log())
    return totals


@pytest.mark.parametrize("chunk", [0, 1, 19 * 3, 19 * 7, 19 * 7 * 2, 10**6])
@pytest.mark.parametrize("kernels", [False, pytest.param(True, marks=needs_triton)])
def test_losses_and_gradients_from_exponentials(kernels, chunk, monkeypatch, small_tiles):
    dtype = DTYPE if kernels else torch.float64
    hidden, matrix, targets = drawn(5, 7, 8, 19, 1.0, dtype)
    monkeypatch.setattr(vocabulary_kernels, "fits", lambda hidden: True)
    if not kernels:
        monkeypatch.setattr(vocabulary_kernels, "exponentials", plainly)
    d_matrix = torch.full_like(matrix, torch.nan, dtype=torch.promote_types(dtype, torch.float32))
    losses, d_hidden = losses_and_gradients(hidden, matrix, targets, chunk, d_matrix)
    true, slopes = exact(hidden, matrix, targets)
    slopes = slopes / 7
    close = {torch.float64: 1e-14, torch.float32: 1e-5, torch.bfloat16: 0.01}[dtype]
    for ours, right in (
        (losses, true.mean(dim=1)),
        (d_hidden, torch.bmm(slopes, matrix.double())),
        (d_matrix, torch.bmm(slopes.transpose(1, 2), hidden.double())),
    ):
        assert (ours - right).norm() < close * right.norm()
