"""Steps between products: kernels against torch, and those against autograd.

Kernels are tested on a GPU, or with TRITON_INTERPRET=1 on a CPU.
"""

from __future__ import annotations

import os

import pytest
import torch
from torch.nn import functional

from basegraph.models import kernels, transformer_kernels, transformer_steps
from basegraph.models.attention import attend, attend_backward
from basegraph.models.gpt import GPT, rotate

needs_triton = pytest.mark.skipif(
    not kernels.AVAILABLE
    or not (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="no Triton, or neither a GPU nor TRITON_INTERPRET=1: its kernels are not tested",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EPS = 1e-5
BOTH = [
    (transformer_steps, torch.float64),
    pytest.param(transformer_kernels, torch.float32, marks=needs_triton),
    pytest.param(transformer_kernels, torch.bfloat16, marks=needs_triton),
]
either = pytest.mark.parametrize(("steps", "dtype"), BOTH, ids=["torch", "float32", "bf16"])


def drawn(*shape, dtype=torch.float64):
    draws = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=draws, dtype=torch.float64).to(DEVICE, dtype)


def exact(*parts):
    """Leaves with the same numbers in float64."""
    return [part.detach().double().clone().requires_grad_() for part in parts]


def wide(dtype):
    return torch.promote_types(dtype, torch.float32)


def strided(*shape, dtype):
    """As a parameter's view of a flat buffer: another node begins a bit further on."""
    whole = drawn(shape[0], torch.Size(shape[1:]).numel() + 3, dtype=dtype)
    return whole[:, : torch.Size(shape[1:]).numel()].view(shape)


def require_close(ours, true, dtype):
    rounding = 4 * torch.finfo(dtype).eps  # the interpreter does not round bf16 to nearest
    assert (ours - true).norm() <= rounding * true.norm()


@either
@pytest.mark.parametrize("shape", [(2, 7, 24), (1, 3, 320), (3, 33, 5)])
def test_normalize(steps, dtype, shape):
    x, weight = drawn(*shape, dtype=dtype), drawn(shape[0], 2, shape[2], dtype=wide(dtype))[:, 1]
    g, onto = drawn(*shape[::-1], dtype=dtype).permute(2, 1, 0).contiguous(), 3 * x
    at, factor = exact(x, weight)
    normal = functional.rms_norm(at, shape[2:], eps=EPS)
    weighted = normal * factor[:, None]
    ours, scale, ours_weighted = steps.normalize(x, EPS, weight)
    require_close(ours, normal, dtype)
    require_close(ours * 1.0, x * scale[..., None], dtype)
    require_close(ours_weighted, weighted, dtype)
    d_x, d_weight = torch.autograd.grad(weighted, (at, factor), g.double(), retain_graph=True)
    ours_d_x, ours_d_weight = steps.normalize_backward(g, ours, scale, None, weight)
    require_close(ours_d_x, d_x, dtype)
    require_close(ours_d_weight, d_weight, dtype)
    (d_x,) = torch.autograd.grad(normal, at, g.double())
    before = onto.clone()
    added, nothing = steps.normalize_backward(g, ours, scale, onto)
    assert nothing is None
    assert added.data_ptr() == onto.data_ptr()
    require_close(added, before.double() + d_x, dtype)
    plain, same_scale, same = steps.normalize(x, EPS)
    assert torch.equal(plain, ours)
    assert torch.equal(same, ours)
    assert torch.equal(same_scale, scale)


@either
@pytest.mark.parametrize(("b", "t", "h", "s"), [(2, 5, 3, 4), (1, 40, 1, 64), (3, 33, 2, 12)])
def test_rotations(steps, dtype, b, t, h, s):
    module = GPT(8, layers=1, width=s * h, heads=h, context=t)
    turn = [part.to(DEVICE, wide(dtype)) for part in (module.cos, module.sin)]
    qkv = drawn(b, t, 3, h, s, dtype=dtype)
    (at,) = exact(qkv)
    q, k, v = (part.transpose(1, 2) for part in at.unbind(2))
    parts = [rotate(q, *(p.double() for p in turn)), rotate(k, *(p.double() for p in turn)), v]
    steps.rotate_(qkv, *turn)
    for ours, true in zip(qkv.unbind(2), parts, strict=True):
        require_close(ours.transpose(1, 2), true, dtype)
    for layout in ("heads first", "tokens first", "mixed"):
        slopes = [drawn(b, h, t, s, dtype=dtype) * (i + 1) for i in range(3)]
        for i in {"heads first": (), "tokens first": (0, 1, 2), "mixed": (2,)}[layout]:
            slopes[i] = slopes[i].transpose(1, 2).contiguous().transpose(1, 2)
        (true,) = torch.autograd.grad(parts, at, [g.double() for g in slopes], retain_graph=True)
        ours = steps.rotate_back(*slopes, *turn)
        assert ours.is_contiguous()
        require_close(ours, true, dtype)


@either
@pytest.mark.parametrize(("n", "r", "f"), [(2, 5, 8), (1, 9, 896), (3, 1, 13)])
def test_swiglu(steps, dtype, n, r, f):
    gate_up, d = 3 * drawn(n, r, 2 * f, dtype=dtype), drawn(n, r, f, dtype=dtype)
    (at,) = exact(gate_up)
    gate, up = at.chunk(2, dim=-1)
    y = functional.silu(gate) * up
    require_close(steps.swiglu(gate_up), y, dtype)
    (true,) = torch.autograd.grad(y, at, d.double())
    steps.swiglu_backward_(d, gate_up)
    require_close(gate_up, true, dtype)


@either
def test_rows_are_added_where_tokens_say(steps, dtype):
    total, rows = strided(3, 11, 20, dtype=wide(dtype)), drawn(3, 50, 20, dtype=dtype)
    tokens = torch.randint(0, 11, (3, 50), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    true = total.double()
    for i in range(3):
        for j in range(50):
            true[i, tokens[i, j]] += rows[i, j].double()
    steps.add_rows_(total, tokens, rows)
    require_close(total, true, wide(dtype))


@either
@pytest.mark.parametrize(("n", "o", "w"), [(2, 9, 5), (3, 33, 320)])
def test_matrices_are_rounded_for_products(steps, dtype, n, o, w):
    matrix, weight = strided(n, o, w, dtype=wide(dtype)), drawn(n, 2 * w, dtype=wide(dtype))[:, w:]
    for factor in (None, weight):
        ours = steps.rounded(matrix, dtype, factor)
        assert ours.dtype == dtype
        assert ours.is_contiguous()
        require_close(ours, matrix if factor is None else matrix * factor[:, None], dtype)


@either
@pytest.mark.parametrize(("n", "o", "w"), [(2, 9, 5), (1, 40, 320)])
def test_a_folded_matrix_gives_the_gradients_of_both(steps, dtype, n, o, w):
    dtype = wide(dtype)
    matrix, g = strided(n, o, w, dtype=dtype), strided(n, o, w, dtype=dtype)
    weight = drawn(n, 3 * w, dtype=dtype)[:, w : 2 * w]
    at, factor = exact(matrix, weight)
    d_matrix, d_weight = torch.autograd.grad(at * factor[:, None], (at, factor), g.double())
    ours = torch.full_like(strided(n, w, dtype=dtype), torch.nan)
    steps.unfold_(g, matrix, weight, ours)
    require_close(ours, d_weight, dtype)
    require_close(g, d_matrix, dtype)


def test_attention_forward_and_backward():
    dtype = torch.bfloat16 if DEVICE == "cuda" else torch.float64
    qkv = drawn(3, 16, 3, 2, 8, dtype=dtype)
    (at,) = exact(qkv)
    q, k, v = (part.transpose(1, 2) for part in at.unbind(2))
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
    attended = attend(qkv)
    require_close(attended.y, y, dtype)
    g = drawn(3, 16, 2, 8, dtype=dtype)
    true = torch.autograd.grad(y, (q, k, v), g.double())
    for ours, right in zip(attend_backward(attended, g), true, strict=True):
        require_close(ours, right, dtype)
