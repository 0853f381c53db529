"""Losses and gradients of all nodes, by the quickest way that the model and the device allow.

Shape legend: x_nd nodes × parameters; samples (n, B, ...); labels (n, B); losses (n,).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import vmap

from basegraph.errors import InvalidArgument
from basegraph.models import gpt_gradients
from basegraph.models.flat import FlatModel, aligned
from basegraph.models.gpt import GPT, next_token_loss
from basegraph.models.stacked import StackedNetwork, UnknownLayer
from basegraph.models.stacked_gpt import StackedGPT

Loss = Callable[[Tensor, Tensor], Tensor]
"""outputs (B, ...), targets (B, ...) -> one number, a mean over the samples"""


def gradients_of(losses: Callable[[Tensor], Tensor], x_nd: Tensor) -> tuple[Tensor, Tensor]:
    """(losses, gradients): every node's loss depends on its own row only."""
    at = x_nd.detach().requires_grad_()
    with torch.enable_grad():
        values = losses(at)
    (gradients,) = torch.autograd.grad(values, at, torch.ones_like(values))
    return values.detach(), gradients


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Let a GPU round the factors of float32 products to TF32 in here, or forbid it."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    allow = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allow
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def stacked_form(module: nn.Module, precision: str) -> StackedNetwork | StackedGPT:
    """The module as a function of all nodes' parameters; `UnknownLayer` where it has none."""
    if isinstance(module, GPT):
        return StackedGPT(module, precision)
    return StackedNetwork(module, precision)


class Gradients:
    """x_nd, samples, labels -> (losses (n,), gradients x_nd).

    `how="stacked"` computes all nodes in one batched pass, "loop" one node after another on views
    of the same buffers, "auto" what is quicker: the loop for convolutions on a CPU. Whatever the
    `precision` of products, parameters and gradients stay in their own type.
    """

    def __init__(
        self, model: FlatModel, loss: Loss, how: str = "auto", precision: str = "float32"
    ) -> None:
        if how not in ("auto", "stacked", "loop"):
            raise InvalidArgument("gradients", how, "must be 'auto', 'stacked' or 'loop'")
        self.model = model
        self.how = how
        self.precision = precision
        self._loss = loss
        self._modules: list[nn.Module] = []
        self._bound: int | None = None
        self.network: StackedNetwork | StackedGPT | None = None
        try:
            self.network = stacked_form(model.module, precision)
        except UnknownLayer as error:
            if precision == "bf16":
                raise InvalidArgument("precision", precision, str(error)) from None

    def __call__(
        self, x_nd: Tensor, samples: Tensor, labels: Tensor, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(losses, gradients) at x_nd; the loop writes the gradients into `out` if it is given."""
        if self.loops_on(x_nd.device):
            return self._loop(x_nd, samples, labels, torch.empty_like(x_nd) if out is None else out)
        if self.by_hand_on(x_nd.device):
            return self._by_hand(x_nd, samples, labels)
        with products_in(self.precision):
            return gradients_of(lambda x_nd: self.losses(x_nd, samples, labels), x_nd)

    def loops_on(self, device: torch.device) -> bool:
        """Whether the nodes are computed one after another."""
        if self.how != "auto":
            return self.how == "loop"
        quicker = device.type == "cpu" and self.model.has_convolutions
        return quicker and self.precision != "bf16"

    def by_hand_on(self, device: torch.device) -> bool:
        """Whether the backward pass is not autograd's, so that a compiler has nothing to gain."""
        if not self.predicts_tokens or self.how == "loop":
            return False
        return gpt_gradients.fits(self._gpt.module, device, self.precision)

    def _by_hand(self, x_nd: Tensor, samples: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        gradients = aligned(x_nd)
        form = gpt_gradients.HandwrittenGPT(self._gpt.module, torch.bfloat16)
        views, slopes = (self.model.stacked_views(v) for v in (x_nd.detach(), gradients))
        return form(views, samples, labels, slopes), gradients

    def outputs(self, x_nd: Tensor, samples: Tensor) -> Tensor:
        """The outputs (n, B, ...) of all nodes for their samples (n, B, ...)."""
        if self.network is None or not self.network.takes(samples):
            return vmap(self.model.forward)(x_nd, samples)
        return self.network(self.model.stacked_views(x_nd), samples)

    def losses(self, x_nd: Tensor, samples: Tensor, labels: Tensor) -> Tensor:
        """The losses (n,) of all nodes in one batched pass."""
        if self.predicts_tokens:
            return self._gpt.losses(self.model.stacked_views(x_nd), samples, labels)
        return vmap(self._loss)(self.outputs(x_nd, samples), labels)

    @property
    def predicts_tokens(self) -> bool:
        """Whether losses are computed without outputs: those of a language model are too large."""
        return isinstance(self.network, StackedGPT) and self._loss is next_token_loss

    def sample_losses(self, x_nd: Tensor, samples: Tensor, targets: Tensor) -> Tensor:
        """The losses (n, B) of all nodes' samples, where it `predicts_tokens`; no gradients."""
        return self._gpt.sample_losses(self.model.stacked_views(x_nd), samples, targets)

    @property
    def _gpt(self) -> StackedGPT:
        assert isinstance(self.network, StackedGPT)
        return self.network

    def _loop(
        self, x_nd: Tensor, samples: Tensor, labels: Tensor, gradients: Tensor
    ) -> tuple[Tensor, Tensor]:
        losses = torch.empty(len(x_nd), dtype=x_nd.dtype, device=x_nd.device)
        for i, module in enumerate(self._modules_on(x_nd)):
            value = self._loss(module(samples[i]), labels[i])
            parts = torch.autograd.grad(value, list(module.parameters()))
            for part, view in zip(parts, self.model.views(gradients[i]).values(), strict=True):
                view.copy_(part)
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
