"""LeNet, VGG-11 and ResNet-18 with group normalization for small images, and an MLP.

Group normalization has no state that changes in training, so a model is its parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from basegraph.data.dataset import OWN
from basegraph.errors import InvalidArgument, unknown

Shape = tuple[int, int, int]
"""Channels, height, width of an image."""
NORM_GROUPS = 2
"""Groups of every group normalization (Hsieh et al. 2020)."""


def norm(channels: int) -> nn.GroupNorm:
    """Group normalization."""
    return nn.GroupNorm(NORM_GROUPS, channels)


def mlp(shape: Shape, classes: int) -> nn.Module:
    """Two hidden layers of 64 units: for 8x8 digits."""
    inputs = shape[0] * shape[1] * shape[2]
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def lenet(shape: Shape, classes: int) -> nn.Module:
    """LeNet-5 with group normalization: 44,470 parameters for 28x28 grey and ten classes."""
    channels, height, width = shape
    rest = ((height - 4) // 2 - 4) // 2 * (((width - 4) // 2 - 4) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        norm(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        norm(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * rest, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def vgg11(shape: Shape, classes: int) -> nn.Module:
    """VGG-11 with group normalization: 9,231,114 parameters for 32x32 color and ten classes."""
    layers: list[nn.Module] = []
    channels = shape[0]
    for width in (64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None):
        if width is None:
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), norm(width), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, classes))


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            norm(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            norm(outputs),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        """x -> relu(body(x) + shortcut(x))"""
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18(shape: Shape, classes: int) -> nn.Module:
    """ResNet-18 with group normalization, in its form for small images: no pooling at the start."""
    layers: list[nn.Module] = [
        nn.Conv2d(shape[0], 64, 3, 1, 1, bias=False),
        norm(64),
        nn.ReLU(),
    ]
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [ResidualBlock(channels, width, stride), ResidualBlock(width, width, 1)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


MODELS: dict[str, Callable[[Shape, int], nn.Module]] = {
    "mlp": mlp,
    "lenet": lenet,
    "vgg11": vgg11,
    "resnet18": resnet18,
}
"""name -> builder(shape, classes)."""


def build(name: str, shape: tuple[int, ...], classes: int | None, seed: int) -> nn.Module:
    """Build a model of `MODELS`, its parameters drawn from a seed and from nothing else.

    Args:
        name: One of `MODELS`.
        shape: Channels, height and width of an image.
        classes: How many outputs; None where there are no classes, which is refused.
        seed: What the parameters are drawn from.

    Returns:
        The module, on the CPU.

    Raises:
        InvalidArgument: If the name is not known, or the data are not classes of images.

    Example:
        >>> sum(p.numel() for p in build("lenet", (1, 28, 28), 10, seed=0).parameters())
        44470

    """
    if name.startswith(OWN):
        raise InvalidArgument("model", name, "was passed from Python: pass it again to train()")
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    if classes is None or len(shape) != 3:
        raise InvalidArgument("model", name, "is for classes of images; pass a module to train()")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        channels, height, width = shape
        return MODELS[name]((channels, height, width), classes)
