"""The models by name: networks for small images, and transformers for tokens.

LeNet, VGG-11 and ResNet-18 have group normalization, which has no state that changes in training:
so a model is its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from basegraph.data.dataset import OWN
from basegraph.errors import InvalidArgument
from basegraph.models.gpt import GPT
from basegraph.specs import Entry, catalog, parse

Shape = tuple[int, int, int]
"""Channels, height, width of an image."""
NORM_GROUPS = 2
"""Groups of a group normalization unless an option says otherwise (Hsieh et al. 2020)."""
LENET_ORDERS = ("norm-first", "published")
PUBLISHED_LENET_GROUPS = (2, 4)
"""Groups of LeNet's two normalizations in the paper's public code."""


def norm(channels: int, groups: int = NORM_GROUPS) -> nn.GroupNorm:
    """Group normalization."""
    if groups < 1 or channels % groups:
        raise InvalidArgument("groups", groups, f"must divide the {channels} channels of a layer")
    return nn.GroupNorm(groups, channels)


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


def lenet(shape: Shape, classes: int, order: str = "norm-first") -> nn.Module:
    """LeNet-5 with group normalization: 44,470 parameters for 28x28 grey and ten classes.

    `order=norm-first` normalizes before ReLU and pooling, in 2 groups; `published` after them, in 2
    and 4 groups, as the paper's public code does.
    """
    if order not in LENET_ORDERS:
        raise InvalidArgument("order", order, f"must be {' or '.join(LENET_ORDERS)}")
    channels, height, width = shape
    rest = ((height - 4) // 2 - 4) // 2 * (((width - 4) // 2 - 4) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        *_after_convolution(6, order, PUBLISHED_LENET_GROUPS[0]),
        nn.Conv2d(6, 16, 5),
        *_after_convolution(16, order, PUBLISHED_LENET_GROUPS[1]),
        nn.Flatten(),
        nn.Linear(16 * rest, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def _after_convolution(channels: int, order: str, published_groups: int) -> list[nn.Module]:
    """Normalization, ReLU and pooling of LeNet, in one of `LENET_ORDERS`."""
    if order == "published":
        return [nn.ReLU(), nn.MaxPool2d(2), norm(channels, published_groups)]
    return [norm(channels), nn.ReLU(), nn.MaxPool2d(2)]


def vgg11(shape: Shape, classes: int, groups: int = NORM_GROUPS) -> nn.Module:
    """VGG-11 with group normalization: 9,231,114 parameters for 32x32 color and ten classes."""
    layers: list[nn.Module] = []
    channels = shape[0]
    for width in (64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None):
        if width is None:
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), norm(width, groups), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, classes))


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            norm(outputs, groups),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            norm(outputs, groups),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs, groups)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """x -> relu(body(x) + shortcut(x))"""
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18(shape: Shape, classes: int, groups: int = NORM_GROUPS) -> nn.Module:
    """ResNet-18 with group normalization, in its form for small images: no pooling at the start."""
    layers: list[nn.Module] = [
        nn.Conv2d(shape[0], 64, 3, 1, 1, bias=False),
        norm(64, groups),
        nn.ReLU(),
    ]
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [
            ResidualBlock(channels, width, stride, groups),
            ResidualBlock(width, width, 1, groups),
        ]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def gpt(
    tokens: int,
    layers: int = 8,
    width: int = 320,
    heads: int = 5,
    context: int = 1024,
    ffn: int = 0,
    vocabulary: int = 0,
) -> nn.Module:
    """A transformer in the style of Llama: RMSNorm, rotary positions, SwiGLU, tied embedding."""
    if vocabulary and vocabulary < tokens:
        raise InvalidArgument(
            "vocabulary", vocabulary, f"must be 0 (the dataset's {tokens}) or at least {tokens}"
        )
    return GPT(
        vocabulary or tokens, layers=layers, width=width, heads=heads, context=context, ffn=ffn
    )


def gpt_tiny(
    tokens: int,
    layers: int = 2,
    width: int = 64,
    heads: int = 2,
    context: int = 64,
    ffn: int = 0,
    vocabulary: int = 0,
) -> nn.Module:
    """The transformer with 2 layers of width 64 and a context of 64, for trying things out."""
    return gpt(tokens, layers, width, heads, context, ffn, vocabulary)


def gpt_10m(
    tokens: int,
    layers: int = 8,
    width: int = 320,
    heads: int = 5,
    context: int = 1024,
    ffn: int = 896,
    vocabulary: int = 0,
) -> nn.Module:
    """The transformer with 8 layers of width 320: 10.2 million parameters with bytes as tokens."""
    return gpt(tokens, layers, width, heads, context, ffn, vocabulary)


def gpt_20m(
    tokens: int,
    layers: int = 8,
    width: int = 320,
    heads: int = 5,
    context: int = 1024,
    ffn: int = 896,
    vocabulary: int = 32_000,
) -> nn.Module:
    """The same with a vocabulary of 32,000: 20.4 million parameters."""
    return gpt(tokens, layers, width, heads, context, ffn, vocabulary)


_FOR_IMAGES: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "lenet": lenet,
    "vgg11": vgg11,
    "resnet18": resnet18,
}
_FOR_TOKENS: dict[str, Callable[..., nn.Module]] = {
    "gpt": gpt,
    "gpt-tiny": gpt_tiny,
    "gpt-10m": gpt_10m,
    "gpt-20m": gpt_20m,
}
IMAGE_MODELS: Mapping[str, Entry[nn.Module]] = catalog(
    _FOR_IMAGES, arguments=("shape", "classes"), typed=True
)
"""name -> builder(shape, classes, **options)."""
TOKEN_MODELS: Mapping[str, Entry[nn.Module]] = catalog(
    _FOR_TOKENS, arguments=("tokens",), typed=True
)
"""name -> builder(tokens, **options), tokens being the dataset's vocabulary."""
MODELS: Mapping[str, Entry[nn.Module]] = {**IMAGE_MODELS, **TOKEN_MODELS}
"""All models by name; an entry knows its description, its options and their defaults."""


def build(
    name: str, shape: tuple[int, ...], classes: int | None, seed: int, vocabulary: int | None = None
) -> nn.Module:
    """Build a model of `MODELS`, its parameters drawn from a seed and from nothing else.

    Args:
        name: One of `MODELS` with its options, such as `gpt:layers=4,width=128,heads=2`.
        shape: Channels, height and width of an image; or the length of a window of tokens.
        classes: How many outputs; None where there are no classes, which image models refuse.
        seed: What the parameters are drawn from.
        vocabulary: How many tokens the dataset has; None where it has none.

    Returns:
        The module, on the CPU.

    Raises:
        InvalidArgument: If the name or an option is not known, or the data are of another kind.

    Example:
        >>> sum(p.numel() for p in build("lenet", (1, 28, 28), 10, seed=0).parameters())
        44470
        >>> model = build("gpt:layers=2,width=64,heads=2", (128,), None, seed=0, vocabulary=256)
        >>> sum(p.numel() for p in model.parameters())
        123200

    """
    if name.startswith(OWN):
        raise InvalidArgument("model", name, "was passed from Python: pass it again to train()")
    known, options = parse("model", name, MODELS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if known in TOKEN_MODELS:
            return _for_tokens(name, TOKEN_MODELS[known], options, shape, vocabulary)
        if classes is None or len(shape) != 3:
            others = "pass a module to train()" if vocabulary is None else " or ".join(TOKEN_MODELS)
            raise InvalidArgument(
                "model", name, f"needs images with class labels; for this dataset {others}"
            )
        return IMAGE_MODELS[known](shape, classes, **options)


def _for_tokens(
    name: str,
    entry: Entry[nn.Module],
    options: dict[str, object],
    shape: tuple[int, ...],
    vocabulary: int | None,
) -> nn.Module:
    if len(shape) != 1 or vocabulary is None:
        raise InvalidArgument("model", name, "is for windows of tokens, such as a text's")
    module = entry(vocabulary, **options)
    if isinstance(module, GPT) and shape[0] > module.context:
        raise InvalidArgument(
            "context", module.context, f"the dataset's windows have {shape[0]} tokens"
        )
    return module


def context_of(name: str) -> int | None:
    """The context of a model for tokens, from its spec alone; None for other models.

    Example:
        >>> context_of("gpt:context=256"), context_of("gpt-tiny"), context_of("mlp")
        (256, 64, None)

    """
    if name.startswith(OWN):
        return None
    known, options = parse("model", name, MODELS)
    context = options.get("context", MODELS[known].options.get("context"))
    return context if isinstance(context, int) else None
