"""The stacked form of networks: the same function, and the same gradients, as node by node."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import basegraph as bg
from basegraph.models.flat import FlatModel
from basegraph.models.gradients import Gradients
from basegraph.models.networks import IMAGE_MODELS, build
from basegraph.models.stacked import StackedNetwork, UnknownLayer
from basegraph.models.stacked_layers import convolution, normalization

SHAPES = {"mlp": (1, 8, 8), "lenet": (1, 28, 28), "vgg11": (3, 32, 32), "resnet18": (3, 32, 32)}
LOSS = nn.functional.cross_entropy


class OwnWay(nn.Module):
    """What users write: functions, a stride, a residual, an odd size."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(4, 4, (1, 3), padding=(0, 1))
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        self.last = nn.Linear(4 * 2 * 2, 5)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = nn.functional.relu(x + self.second(x))
        return self.last(torch.flatten(self.pool(x), 1))


def both_ways(module, shape, classes, nodes=3, batch=4):
    model = FlatModel(module.double())
    draws = torch.Generator().manual_seed(1)
    x_nd = model.initial().repeat(nodes, 1)
    x_nd = x_nd + 0.05 * torch.randn(x_nd.shape, generator=draws, dtype=torch.float64)
    samples = torch.randn(nodes, batch, *shape, generator=draws, dtype=torch.float64)
    labels = torch.randint(0, classes, (nodes, batch), generator=draws)
    both = [Gradients(model, LOSS, how)(x_nd, samples, labels) for how in ("stacked", "loop")]
    assert isinstance(Gradients(model, LOSS).network, StackedNetwork)
    return both


class TakenTwice(nn.Module):
    """Normalization, ReLU and pooling in a row, of which a second layer takes the middle."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(1, 2)
        self.small, self.large = nn.MaxPool2d(2), nn.MaxPool2d(3, 2, padding=1)
        self.last = nn.Linear(2 * 2 * 2, 5)

    def forward(self, x):
        x = torch.relu(self.norm(x))
        x = self.small(x) + self.large(x)
        return self.last(torch.flatten(x, 1))


class BroadcastShortcut(nn.Module):
    """A shortcut of one pixel, added to all pixels of a normalized image."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.last = nn.Linear(4 * 4 * 4, 5)

    def forward(self, x):
        x = self.first(x)
        return self.last(torch.flatten(torch.relu(self.norm(x) + self.mean(x)), 1))


PUBLISHED = (
    "lenet:order=published",
    *(pytest.param(f"{name}:groups=8", marks=pytest.mark.slow) for name in ("vgg11", "resnet18")),
)


@pytest.mark.parametrize("name", [*sorted(IMAGE_MODELS), *PUBLISHED])
def test_every_model(name):
    shape = SHAPES[name.partition(":")[0]]
    (losses, gradients), (expected, reference) = both_ways(
        build(name, shape, 10, seed=0), shape, 10, batch=2
    )
    assert torch.allclose(losses, expected, rtol=1e-12)
    assert (gradients - reference).norm() < 1e-12 * reference.norm()


def test_a_network_of_ones_own():
    (losses, gradients), (expected, reference) = both_ways(OwnWay(), (2, 7, 7), 5)
    assert torch.allclose(losses, expected, rtol=1e-12)
    assert (gradients - reference).norm() < 1e-12 * reference.norm()


def test_shortcuts_may_be_broadcast():
    (losses, gradients), (expected, reference) = both_ways(BroadcastShortcut(), (2, 4, 4), 5)
    assert torch.allclose(losses, expected, rtol=1e-12)
    assert (gradients - reference).norm() < 1e-12 * reference.norm()


def test_norm_relu_and_pooling_are_one_step_unless_a_part_is_taken_elsewhere():
    assert len(StackedNetwork(build("lenet", (1, 28, 28), 10, seed=0)).calls) == 14 - 2 * 2
    assert len(StackedNetwork(TakenTwice()).calls) == 7 - 1
    (losses, gradients), (expected, reference) = both_ways(TakenTwice(), (2, 4, 4), 5)
    assert torch.allclose(losses, expected, rtol=1e-12)
    assert (gradients - reference).norm() < 1e-12 * reference.norm()


def test_shortcuts_are_added_and_biases_of_convolutions_left_to_normalization():
    calls = StackedNetwork(build("resnet18", (3, 32, 32), 10, seed=0)).calls
    # Convolutions and normalizations; pooling, flattening, the last layer; plain shortcuts.
    assert len(calls) == 2 * 20 + 3 + 5
    assert sum(call.form is normalization and len(call.arguments) == 2 for call in calls) == 8
    vgg11 = StackedNetwork(build("vgg11", (3, 32, 32), 10, seed=0)).calls
    assert ["bias" in call.names for call in vgg11 if call.form is convolution] == [True] + 7 * [
        False
    ]
    assert sum("shift" in call.names for call in vgg11) == 7


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.Flatten(), nn.Linear(2, 2)),
        nn.Sequential(nn.Flatten(), nn.Linear(18, 2), nn.Softmax(dim=1)),
        nn.Sequential(nn.Conv2d(2, 2, 3, padding="same"), nn.Flatten(), nn.Linear(18, 2)),
    ],
)
def test_other_layers_fall_back_to_vmap(module):
    with pytest.raises(UnknownLayer):
        StackedNetwork(module)
    model = FlatModel(module)
    x_nd = model.initial().repeat(3, 1)
    samples, labels = torch.randn(3, 4, 2, 3, 3), torch.randint(0, 2, (3, 4))
    both = [Gradients(model, LOSS, how)(x_nd, samples, labels)[1] for how in ("stacked", "loop")]
    assert torch.allclose(*both, atol=1e-6)
    with pytest.raises(bg.InvalidArgument, match="precision='bf16'"):
        Gradients(model, LOSS, precision="bf16")


def test_pooling_treats_equals_and_no_numbers_as_torch_does():
    class Pool(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = nn.MaxPool2d(2)

        def forward(self, x):
            return self.pool(x)

    x = torch.randint(0, 3, (2, 3, 4, 6, 6)).double().requires_grad_()
    mine = StackedNetwork(Pool())({}, x.transpose(1, 2)).transpose(1, 2)
    truth = nn.functional.max_pool2d(x.flatten(0, 1), 2).view_as(mine)
    assert torch.equal(mine, truth)
    weights = torch.randn_like(truth)
    (a,) = torch.autograd.grad(mine, x, weights, retain_graph=True)
    (b,) = torch.autograd.grad(truth, x, weights)
    assert torch.equal(a, b)
    for place in range(4):
        spoiled = x.detach().clone()
        spoiled[0, 0, 0, place // 2, place % 2] = torch.nan
        out = StackedNetwork(Pool())({}, spoiled.transpose(1, 2)).transpose(1, 2)
        assert out[0, 0, 0, 0, 0].isnan()
        assert out.isnan().sum() == 1


def test_bf16_is_close_and_keeps_float32_parameters():
    model = FlatModel(build("lenet", (1, 28, 28), 10, seed=0))
    x_nd = model.initial().repeat(2, 1)
    draws = torch.Generator().manual_seed(0)
    samples = torch.randn(2, 8, 1, 28, 28, generator=draws)
    labels = torch.randint(0, 10, (2, 8), generator=draws)
    _, exact = Gradients(model, LOSS)(x_nd, samples, labels)
    _, rough = Gradients(model, LOSS, precision="bf16")(x_nd, samples, labels)
    assert rough.dtype == torch.float32
    error = (rough - exact).norm() / exact.norm()
    assert 1e-3 < error < 0.2


def test_group_norm_in_bf16_is_finite_far_from_zero():
    """The variance of numbers near 300 has no digits left in bf16."""
    module = nn.Sequential(nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(8, 2))
    model = FlatModel(module)
    x_nd = model.initial().repeat(2, 1)
    samples = 300 + torch.randn(2, 4, 2, 2, 2)
    losses, gradients = Gradients(model, LOSS, precision="bf16")(
        x_nd, samples, torch.zeros(2, 4, dtype=torch.int64)
    )
    assert losses.isfinite().all()
    assert gradients.isfinite().all()
