from __future__ import annotations

import pytest
import torch
from torch import nn

import basegraph as bg
from basegraph.models.flat import FlatModel
from basegraph.models.gradients import Gradients
from basegraph.models.networks import IMAGE_MODELS, build

LOSS = nn.functional.cross_entropy


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [
        ("lenet", (1, 28, 28), 10, 44_470),
        ("vgg11", (3, 32, 32), 10, 9_231_114),
        ("vgg11", (3, 32, 32), 100, 9_277_284),
        ("resnet18", (3, 32, 32), 10, 11_173_962),
        ("mlp", (1, 8, 8), 10, 8_970),
    ],
)
def test_parameter_counts(name, shape, classes, count):
    assert FlatModel(build(name, shape, classes, seed=0)).size == count


@pytest.mark.parametrize("name", sorted(IMAGE_MODELS))
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_takes_both_image_sizes(name, shape):
    assert build(name, shape, 7, seed=0)(torch.zeros(2, *shape)).shape == (2, 7)


def test_options_change_groups_and_order_and_no_parameter():
    published = build("lenet:order=published", (1, 28, 28), 10, seed=0)
    kinds = [type(layer).__name__ for layer in published][:8]
    assert kinds == 2 * ["Conv2d", "ReLU", "MaxPool2d", "GroupNorm"]
    assert [published[3].num_groups, published[7].num_groups] == [2, 4]
    assert FlatModel(published).size == 44_470
    for name in ("vgg11", "resnet18"):
        plain, wide = (build(f"{name}{o}", (3, 32, 32), 10, seed=0) for o in ("", ":groups=8"))
        assert torch.equal(FlatModel(plain).initial(), FlatModel(wide).initial())
        for module, groups in ((plain, 2), (wide, 8)):
            norms = [m.num_groups for m in module.modules() if isinstance(m, nn.GroupNorm)]
            assert set(norms) == {groups}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("vgg11:groups=7", "groups=7: must divide the 64 channels of a layer"),
        ("resnet18:groups=0", "groups=0: must divide"),
        ("vgg11:groups=some", "groups='some': must be an integer"),
        ("lenet:order=mine", "order='mine': must be norm-first or published"),
        ("lenet:groups=8", "groups"),
    ],
)
def test_options_that_are_refused(name, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        build(name, (3, 32, 32), 10, seed=0)


def test_parameters_come_from_the_seed_alone():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one = FlatModel(build("mlp", (1, 8, 8), 10, seed=0)).initial()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(one, FlatModel(build("mlp", (1, 8, 8), 10, seed=0)).initial())
    assert not torch.equal(one, FlatModel(build("mlp", (1, 8, 8), 10, seed=1)).initial())


@pytest.mark.parametrize(("name", "shape"), [("mlp", (1, 8, 8)), ("lenet", (1, 28, 28))])
@pytest.mark.parametrize("how", ["stacked", "loop", "auto"])
def test_gradients_are_those_of_separate_modules(name, shape, how):
    n, batch = 3, 5
    draws = torch.Generator().manual_seed(0)
    modules = [build(name, shape, 10, seed=s).double() for s in range(n)]
    samples = torch.randn(n, batch, *shape, generator=draws, dtype=torch.float64)
    labels = torch.randint(0, 10, (n, batch), generator=draws)
    model = FlatModel(modules[0])
    x_nd = torch.stack([FlatModel(m).initial() for m in modules])
    losses, gradients = Gradients(model, LOSS, how)(x_nd, samples, labels)
    for i, module in enumerate(modules):
        value = LOSS(module(samples[i]), labels[i])
        mine = torch.autograd.grad(value, list(module.parameters()))
        assert torch.allclose(losses[i], value, atol=1e-12)
        assert torch.allclose(gradients[i], torch.cat([g.reshape(-1) for g in mine]), atol=1e-12)


def test_gradients_go_where_they_are_asked_to():
    model = FlatModel(build("lenet", (1, 28, 28), 10, seed=0))
    x_nd = model.initial().repeat(2, 1)
    out = torch.full_like(x_nd, torch.nan)
    samples, labels = torch.zeros(2, 3, 1, 28, 28), torch.zeros(2, 3, dtype=torch.long)
    _, gradients = Gradients(model, LOSS, "loop")(x_nd, samples, labels, out)
    assert gradients is out
    assert torch.isfinite(out).all()


def test_batch_norm_is_refused_with_an_explanation():
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
    with pytest.raises(bg.InvalidArgument, match=r"BatchNorm2d '1'.*running statistics.*GroupNorm"):
        FlatModel(module)
    FlatModel(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, track_running_stats=False)))


def test_what_is_not_a_function_of_its_parameters_is_refused():
    with pytest.raises(bg.InvalidArgument, match=r"Dropout '1'.*draws random numbers"):
        FlatModel(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
    frozen = nn.Linear(2, 2)
    frozen.bias.requires_grad_(False)
    with pytest.raises(bg.InvalidArgument, match=r"parameter 'bias'.*is frozen"):
        FlatModel(frozen)


def test_a_model_needs_parameters():
    with pytest.raises(bg.InvalidArgument, match="must have parameters"):
        FlatModel(nn.ReLU())


def test_unknown_model():
    with pytest.raises(bg.InvalidArgument, match="model='lenett': did you mean 'lenet'"):
        build("lenett", (1, 28, 28), 10, seed=0)
