"""The transformer: its parts, its sizes, and the stacked form against one module per node."""

from __future__ import annotations

import copy
import math
import os

import pytest
import torch

import basegraph as bg
from basegraph.models import gpt_gradients, kernels, transformer_kernels
from basegraph.models.flat import FlatModel, aligned
from basegraph.models.gpt import GPT, next_token_loss, rotate
from basegraph.models.gpt_gradients import HandwrittenGPT
from basegraph.models.gradients import Gradients
from basegraph.models.networks import build, context_of
from basegraph.models.stacked_gpt import StackedGPT

needs_triton = pytest.mark.skipif(
    not kernels.AVAILABLE
    or not (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="no Triton, or neither a GPU nor TRITON_INTERPRET=1: its kernels are not tested",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def small(**sizes):
    torch.manual_seed(0)
    return GPT(37, **{"layers": 2, "width": 24, "heads": 3, "context": 16, **sizes})


def nodes_of(model, n, dtype):
    """Different parameters, tokens and targets for every node."""
    draws = torch.Generator().manual_seed(n)
    x_nd = model.initial() + 0.1 * torch.randn(n, model.size, generator=draws, dtype=dtype)
    tokens, targets = torch.randint(0, 37, (2, n, 4, 12), generator=draws)
    return x_nd, tokens, targets


@pytest.mark.parametrize(
    ("spec", "vocabulary", "count"),
    [
        ("gpt-20m", 256, 20_403_520),
        ("gpt:ffn=896,vocabulary=32000", 256, 20_403_520),
        ("gpt-10m", 256, 10_245_440),
        ("gpt-tiny", 256, 2 * (4 * 64**2 + 3 * 64 * 192 + 2 * 64) + 64 + 256 * 64),
        ("gpt:layers=1,width=8,heads=1,ffn=5", 3, 4 * 8**2 + 3 * 8 * 5 + 2 * 8 + 8 + 3 * 8),
    ],
)
def test_parameter_counts(spec, vocabulary, count):
    assert FlatModel(build(spec, (32,), None, seed=0, vocabulary=vocabulary)).size == count


def test_a_token_sees_those_before_it_only():
    module, tokens = small(), torch.randint(0, 37, (2, 12), generator=torch.Generator())
    changed = tokens.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 37
    before, after = module(tokens), module(changed)
    assert torch.equal(before[:, :7], after[:, :7])
    assert (before[:, 7:] != after[:, 7:]).any(dim=-1).all()


def test_rotation_keeps_lengths_and_depends_on_distances_alone():
    module = small()
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0)).unbind(0)
    turned_q, turned_k = (rotate(x.expand(1, 1, 16, 8), module.cos, module.sin) for x in (q, k))
    assert torch.allclose(turned_q.norm(dim=-1), q.norm(dim=-1).expand(1, 1, 16), rtol=1e-5)
    products = (turned_q @ turned_k.transpose(-1, -2))[0, 0]
    for distance in (-5, 0, 3):
        diagonal = products.diagonal(distance)
        assert torch.allclose(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5)


def test_a_fresh_model_finds_all_tokens_about_equally_likely():
    tokens = torch.randint(0, 37, (4, 16), generator=torch.Generator().manual_seed(0))
    loss = next_token_loss(small()(tokens), tokens.flip(0))
    assert loss.item() == pytest.approx(math.log(37), abs=0.05)


@pytest.mark.parametrize("n", [1, 3, 5, 7, 12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_stacked_is_the_loop_over_nodes(n, dtype):
    model = FlatModel(small().to(dtype))
    x_nd, tokens, targets = nodes_of(model, n, dtype)
    stacked, loop = (Gradients(model, next_token_loss, how) for how in ("stacked", "loop"))
    losses, gradients = stacked(x_nd, tokens, targets)
    expected, reference = loop(x_nd, tokens, targets)
    rounding = 32 * torch.finfo(dtype).eps
    assert stacked.predicts_tokens
    assert torch.allclose(losses, expected, rtol=rounding)
    assert (gradients - reference).norm() < rounding * reference.norm()
    outputs = stacked.outputs(x_nd, tokens)
    each = torch.stack([model.forward(x_d, mine) for x_d, mine in zip(x_nd, tokens, strict=True)])
    assert (outputs - each).norm() < rounding * each.norm()
    per_sample = stacked.sample_losses(x_nd, tokens, targets)
    assert per_sample.shape == (n, 4)
    assert torch.allclose(per_sample.mean(dim=1), losses, rtol=rounding)


def test_bf16_rounds_products_and_nothing_else():
    model = FlatModel(small())
    x_nd, tokens, targets = nodes_of(model, 3, torch.float32)
    losses, gradients = Gradients(model, next_token_loss, precision="bf16")(x_nd, tokens, targets)
    expected, reference = Gradients(model, next_token_loss)(x_nd, tokens, targets)
    assert losses.dtype == gradients.dtype == torch.float32
    assert torch.allclose(losses, expected, rtol=0.01)
    assert 1e-4 < (gradients - reference).norm() / reference.norm() < 0.03


@pytest.mark.parametrize("n", [1, 3, 12])
@pytest.mark.parametrize("chunk", [0, 37 * 10])
def test_the_backward_pass_by_hand_is_the_loop_over_nodes(n, chunk):
    model = FlatModel(small().double())
    x_nd, tokens, targets = nodes_of(model, n, torch.float64)
    expected, reference = Gradients(model, next_token_loss, "loop")(x_nd, tokens, targets)
    gradients = torch.full_like(aligned(x_nd), torch.nan)
    form = HandwrittenGPT(model.module, torch.float64, chunk)
    views, slopes = model.stacked_views(x_nd), model.stacked_views(gradients)
    losses = form(views, tokens, targets, slopes)
    assert torch.allclose(losses, expected, rtol=1e-14)
    assert (gradients - reference).norm() < 1e-14 * reference.norm()


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_backward_pass_by_hand_with_kernels(dtype, monkeypatch):
    if DEVICE == "cuda" and dtype == torch.float32:
        pytest.skip("attention on a GPU is in bf16")
    monkeypatch.setattr(gpt_gradients, "_steps_on", lambda device: transformer_kernels)
    module = small(width=48, heads=3, context=16)  # heads of 16
    model = FlatModel(copy.deepcopy(module).to(DEVICE))
    x_nd, tokens, targets = nodes_of(FlatModel(module), 3, torch.float32)
    truth = FlatModel(module.double())
    _, reference = Gradients(truth, next_token_loss, "loop")(x_nd.double(), tokens, targets)
    x_nd, tokens, targets = (part.to(DEVICE) for part in (x_nd, tokens, targets))
    gradients = torch.full_like(aligned(x_nd), torch.nan)
    form = HandwrittenGPT(model.module, dtype)
    form(model.stacked_views(x_nd), tokens, targets, model.stacked_views(gradients))
    error = (gradients.cpu() - reference).norm() / reference.norm()
    assert error < (1e-5 if dtype == torch.float32 else 0.03)


def test_another_loss_is_computed_from_the_logits():
    def squares(logits, targets):
        return logits.square().mean()

    model = FlatModel(small().double())
    x_nd, tokens, targets = nodes_of(model, 3, torch.float64)
    stacked, loop = (Gradients(model, squares, how) for how in ("stacked", "loop"))
    assert not stacked.predicts_tokens
    for ours, expected in zip(
        stacked(x_nd, tokens, targets), loop(x_nd, tokens, targets), strict=True
    ):
        assert torch.allclose(ours, expected, rtol=1e-10, atol=1e-14)


def test_more_tokens_than_the_context_are_refused():
    module = small()
    assert not StackedGPT(module).takes(torch.zeros(1, 1, 17, dtype=torch.int64))
    with pytest.raises(ValueError, match="17 tokens are more than the context of 16"):
        module(torch.zeros(1, 17, dtype=torch.int64))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gpt:heads=7", "heads=7: must divide the width, 320"),
        ("gpt:heads=64", r"heads=64: must give heads of even size; 320 / 64 = 5"),
        ("gpt:context=1", "context=1: must be an integer ≥ 2"),
        ("gpt:vocabulary=1", r"vocabulary=1: must be 0 \(the dataset's 256\) or at least 256"),
        ("gpt:vocabulary=-1", r"vocabulary=-1: must be 0 \(the dataset's 256\) or at least 256"),
        ("gpt:layers=0", "layers=0: must be an integer ≥ 1"),
        ("gpt:width=half", "width='half': must be an integer"),
        ("gpt:ffn=-3", "ffn=-3: must be an integer ≥ 1, or 0 for 8/3 of the width"),
        ("gpt:depth=3", "option of gpt='depth': did you mean 'width'"),
        ("gpt:context=16", "context=16: the dataset's windows have 32 tokens"),
        ("mlp:width=3", "option of mlp='width'"),
        ("mlp", "model='mlp': needs images with class labels"),
    ],
)
def test_bad_models_are_refused_in_one_line(spec, message):
    with pytest.raises(bg.InvalidArgument, match=message) as refusal:
        build(spec, (32,), None, seed=0, vocabulary=256)
    assert "\n" not in str(refusal.value)


def test_a_vocabulary_of_one_token_is_refused():
    with pytest.raises(bg.InvalidArgument, match="vocabulary=1: must be an integer ≥ 2"):
        build("gpt-tiny", (32,), None, seed=0, vocabulary=1)


def test_images_are_refused():
    with pytest.raises(bg.InvalidArgument, match="model='gpt-tiny': is for windows of tokens"):
        build("gpt-tiny", (1, 8, 8), 10, seed=0)


def test_the_context_is_known_from_the_spec():
    assert context_of("gpt-20m:context=77,layers=2") == 77
    assert context_of("gpt-20m") == 1024
    assert context_of("vgg11") is None
    assert context_of("own: Reader") is None
