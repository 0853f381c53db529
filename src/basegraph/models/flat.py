"""A module as a function of one flat vector of parameters, for one node or for all at once.

Shape legend: x_d the parameters of one node, x_nd of all; samples (B, ...) and (n, B, ...).
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from basegraph.errors import InvalidArgument

Loss = Callable[[Tensor, Tensor], Tensor]


class FlatModel:
    """A module whose parameters live in a flat vector outside it."""

    def __init__(self, module: nn.Module) -> None:
        _refuse_what_is_not_a_function(module)
        self.module = module
        self.names = [name for name, _ in module.named_parameters()]
        self.shapes = [parameter.shape for parameter in module.parameters()]
        self.sizes = [parameter.numel() for parameter in module.parameters()]
        self.size = sum(self.sizes)
        if not self.size:
            raise InvalidArgument("model", type(module).__name__, "must have parameters")

    def initial(self) -> Tensor:
        """The module's own parameters as one vector."""
        return torch.cat([p.detach().reshape(-1) for p in self.module.parameters()])

    def views(self, x_d: Tensor) -> dict[str, Tensor]:
        """The parameters by name, as views of the vector."""
        parts = torch.split(x_d, self.sizes)
        named = zip(self.names, parts, self.shapes, strict=True)
        return {name: part.view(shape) for name, part, shape in named}

    def forward(self, x_d: Tensor, samples: Tensor) -> Tensor:
        """The module's output with these parameters."""
        return functional_call(self.module, self.views(x_d), (samples,))

    @property
    def has_convolutions(self) -> bool:
        """Whether any layer is a convolution, which `vmap` turns into a slow grouped one."""
        return any(isinstance(m, nn.modules.conv._ConvNd) for m in self.module.modules())


class Gradients:
    """Losses and gradients of all nodes: x_nd, samples, labels -> (losses (n,), gradients x_nd).

    `how="stacked"` computes all nodes in one batched pass; `how="loop"` one node after another on
    views of the same buffers. "auto" takes the quicker one: the loop for convolutions on a CPU.
    """

    def __init__(self, model: FlatModel, loss: Loss, how: str = "auto") -> None:
        if how not in ("auto", "stacked", "loop"):
            raise InvalidArgument("gradients", how, "must be 'auto', 'stacked' or 'loop'")
        self.model = model
        self.how = how
        self._loss = loss
        self._modules: list[nn.Module] = []
        self._bound: int | None = None

        def objective(x_d: Tensor, samples: Tensor, labels: Tensor) -> Tensor:
            return loss(model.forward(x_d, samples), labels)

        self._stacked = vmap(grad_and_value(objective))

    def __call__(
        self, x_nd: Tensor, samples: Tensor, labels: Tensor, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(losses, gradients) at x_nd; the loop writes the gradients into `out` if it is given."""
        how = self.how
        if how == "auto":
            on_cpu = x_nd.device.type == "cpu"
            how = "loop" if on_cpu and self.model.has_convolutions else "stacked"
        if how == "stacked":
            gradients, losses = self._stacked(x_nd, samples, labels)
            return losses, gradients
        return self._loop(x_nd, samples, labels, torch.empty_like(x_nd) if out is None else out)

    def _loop(
        self, x_nd: Tensor, samples: Tensor, labels: Tensor, gradients: Tensor
    ) -> tuple[Tensor, Tensor]:
        losses = torch.empty(len(x_nd), dtype=x_nd.dtype, device=x_nd.device)
        for i, module in enumerate(self._modules_on(x_nd)):
            value = self._loss(module(samples[i]), labels[i])
            found = torch.autograd.grad(value, list(module.parameters()))
            for mine, view in zip(found, self.model.views(gradients[i]).values(), strict=True):
                view.copy_(mine)
            losses[i] = value.detach()
        return losses, gradients

    def _modules_on(self, x_nd: Tensor) -> list[nn.Module]:
        """A module for every node whose parameters are views of its row: a plain call runs it."""
        if len(self._modules) != len(x_nd):
            self._modules = [copy.deepcopy(self.model.module) for _ in x_nd]
            self._bound = None
        if self._bound != x_nd.data_ptr():
            for module, x_d in zip(self._modules, x_nd.detach(), strict=True):
                views = self.model.views(x_d).values()
                for parameter, view in zip(module.parameters(), views, strict=True):
                    parameter.data = view
            self._bound = x_nd.data_ptr()
        return self._modules


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
                "model", where, "draws at random outside of the seeded plan, so no run could resume"
            )
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise InvalidArgument("model", f"parameter {name!r}", "is frozen; make it a buffer")
