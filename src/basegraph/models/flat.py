"""A module as a function of one flat vector of parameters, for one node or for all at once.

Shape legend: x_d the parameters of one node, x_nd of all; samples (B, ...) and (n, B, ...).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from basegraph.errors import InvalidArgument

ROW = 64
"""Rows of a buffer begin at multiples of so many numbers, as matrix products like it."""


class DecayPart(NamedTuple):
    """Neighboring parameters, all of which decay or none."""

    first: int
    size: int
    decays: bool


class FlatModel:
    """A module whose parameters live in a flat vector outside it."""

    def __init__(self, module: nn.Module) -> None:
        _refuse_what_is_not_a_function(module)
        self.module = module
        self.names = [name for name, _ in module.named_parameters()]
        self.shapes = [parameter.shape for parameter in module.parameters()]
        self.sizes = [parameter.numel() for parameter in module.parameters()]
        self.size = sum(self.sizes)
        self.ties = second_names(module)
        if not self.size:
            raise InvalidArgument("model", type(module).__name__, "must have parameters")

    def initial(self) -> Tensor:
        """The module's own parameters as one vector."""
        return torch.cat([p.detach().reshape(-1) for p in self.module.parameters()])

    def described_shapes(self) -> dict[str, str]:
        """The shape of every parameter in words, as checkpoints keep it: {"0.weight": "64 3"}."""
        named = zip(self.names, self.shapes, strict=True)
        return {name: " ".join(map(str, shape)) for name, shape in named}

    def decay_parts(self) -> list[DecayPart]:
        """The vector in parts, some of which decoupled weight decay leaves out.

        Norms' scales and biases do not decay, as usual: parameters of one dimension or none.

        Example:
            >>> FlatModel(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))).decay_parts()
            [DecayPart(first=0, size=6, decays=True), DecayPart(first=6, size=9, decays=False)]

        """
        parts: list[DecayPart] = []
        first = 0
        for shape, size in zip(self.shapes, self.sizes, strict=True):
            decays = len(shape) > 1
            if parts and parts[-1].decays == decays:
                parts[-1] = parts[-1]._replace(size=parts[-1].size + size)
            else:
                parts.append(DecayPart(first, size, decays))
            first += size
        return parts

    def views(self, x_d: Tensor) -> dict[str, Tensor]:
        """The parameters by name, as views of the vector."""
        parts = torch.split(x_d, self.sizes)
        named = zip(self.names, parts, self.shapes, strict=True)
        return {name: part.view(shape) for name, part, shape in named}

    def stacked_views(self, x_nd: Tensor) -> dict[str, Tensor]:
        """The parameters of all nodes by name, `(n, *shape)`, as views of the buffer."""
        parts = torch.split(x_nd, self.sizes, dim=1)
        named = zip(self.names, parts, self.shapes, strict=True)
        return {name: part.view(len(x_nd), *shape) for name, part, shape in named}

    def forward(self, x_d: Tensor, samples: Tensor) -> Tensor:
        """The module's output with these parameters."""
        return functional_call(self.module, self.views(x_d), (samples,))

    @property
    def has_convolutions(self) -> bool:
        """Whether any layer is a convolution, for which a CPU is quicker node by node."""
        return any(isinstance(m, nn.modules.conv._ConvNd) for m in self.module.modules())


def first_names(module: nn.Module) -> dict[nn.Parameter, str]:
    """The name of every parameter; tied ones are one parameter, which has its first name."""
    return {parameter: name for name, parameter in module.named_parameters()}


def second_names(module: nn.Module) -> dict[str, str]:
    """The other names of tied parameters, each with the first.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> net[1].weight = net[0].weight
    >>> second_names(net)
    {'1.weight': '0.weight'}
    """
    first = first_names(module)
    names = module.named_parameters(remove_duplicate=False)
    return {name: first[p] for name, p in names if first[p] != name}


def aligned(like: Tensor) -> Tensor:
    """An empty tensor like this matrix, each of whose rows begins at a multiple of `ROW`."""
    rows, columns = like.shape
    return like.new_empty(rows, -(-columns // ROW) * ROW)[:, :columns]


def _refuse_what_is_not_a_function(module: nn.Module) -> None:
    """A model must be a function of its parameters and its samples, and of nothing else."""
    for name, part in module.named_modules():
        where = f"{type(part).__name__} {name!r}"
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats:
            raise InvalidArgument(
                "model",
                where,
                "keeps running statistics, which would differ between nodes and are not mixed; "
                "use GroupNorm or LayerNorm instead",
            )
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0:
            raise InvalidArgument(
                "model",
                where,
                "draws random numbers that no seed decides, so runs could not be repeated",
            )
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise InvalidArgument("model", f"parameter {name!r}", "is frozen; make it a buffer")
