"""What a model has besides the parameters that are trained: buffers and frozen parameters."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from basegraph.engines.distributed.local_shards import local
from basegraph.errors import BasegraphError, InvalidArgument


class ModelBuffers:
    """Buffers and frozen parameters of a model.

    All start as node 0's. Buffers of floating-point type, such as the running statistics of a
    BatchNorm, can be averaged; integers and values that are not finite stay as they are.

    Args:
        model: The module.
        trained: Its parameters that are trained.

    """

    def __init__(self, model: nn.Module, trained: list[Tensor]) -> None:
        if not isinstance(model, nn.Module):
            raise InvalidArgument("model", model, "must be a torch.nn.Module")
        if isinstance(model, torch.jit.ScriptModule):
            raise InvalidArgument("model", type(model).__name__, "must not be a ScriptModule")
        self._model = model
        ours = {id(p) for p in trained}
        own = [(m, name, p) for m in model.modules() for name, p in m._parameters.items()]
        self._homes = [(m, name, p) for m, name, p in own if p is not None and id(p) in ours]
        if len({id(p) for *_, p in self._homes}) < len(ours):
            raise InvalidArgument(
                "model", type(model).__name__, "does not have all the parameters that are trained"
            )
        known = {id(p): name for name, p in model.named_parameters()}
        self.names = [known[id(p)] for p in trained]
        self.frozen = [p for p in model.parameters() if id(p) not in ours]
        self._buffers = [
            (m, name) for m in model.modules() for name, b in m._buffers.items() if b is not None
        ]

    def all(self) -> list[Tensor]:
        """Buffers, as they are now, and frozen parameters."""
        return [*self._now(), *self.frozen]

    def require_same_parameters(self) -> None:
        """Refuse a model whose parameters were replaced since the optimizer was built."""
        for module, name, p in self._homes:
            moved = module._parameters.get(name) is not p
            if moved and all(q is not p for q in self._model.parameters()):
                raise BasegraphError(
                    f"parameter {name!r} of a {type(module).__name__} was replaced after the "
                    f"optimizer had been built (load_state_dict(assign=True) does that): load "
                    f"without assign, or build the optimizer afterwards"
                )

    def gather(self) -> Tensor | None:
        """The buffers that can be averaged, in one vector; None where there are none.

        Behind the values stands for each whether it is finite: the average is over nodes where it
        is.
        """
        parts = [b.detach().reshape(-1) for b in self._floating()]
        if not parts:
            return None
        values = torch.cat(parts)
        finite = values.isfinite()
        return torch.cat([torch.where(finite, values, 0), finite.to(values.dtype)])

    def scatter(self, vector: Tensor) -> None:
        """Put such a vector into the buffers."""
        values, finite = vector.chunk(2)
        vector = values / torch.where(finite > 0, finite, 1)
        first = 0
        with torch.no_grad():
            for b in self._floating():
                value = vector[first : first + b.numel()].view(b.shape).to(b.dtype)
                b.copy_(torch.where(b.isfinite(), value, b))
                first += b.numel()

    def _floating(self) -> list[Tensor]:
        return [b for b in self._now() if b.is_floating_point()]

    def _now(self) -> list[Tensor]:
        """The buffers, wherever `.to()` has put them since."""
        buffers = [m._buffers[name] for m, name in self._buffers]
        return [local(b) for b in buffers if b is not None]


def _modules_here() -> Iterator[nn.Module]:
    """The modules of this process: an optimizer is given parameters, not the model."""
    for candidate in gc.get_objects():
        kind = type(candidate)
        if not issubclass(kind, nn.Module) or issubclass(kind, torch.jit.ScriptModule):
            continue
        if "_modules" in vars(candidate):  # not one that is just being made
            yield candidate


def names_of(parameters: list[Tensor]) -> list[str] | None:
    """The parameters' names in the smallest module of this process that has all of them.

    They tell apart nodes that hold the same parameters in different orders, as scripts do that make
    a list of a set. None if no module has them all.
    """
    ours = {id(p) for p in parameters}
    known: list[tuple[int, list[str]]] = []
    for module in _modules_here():
        # Classes may have other things by these names.
        names = {id(p): name for name, p in nn.Module.named_parameters(module)}
        if ours <= names.keys():
            size = sum(1 for _ in nn.Module.modules(module))
            known.append((size, [names[id(p)] for p in parameters]))
    return min(known, default=(0, None))[1]


def running_statistics(parameters: list[Tensor]) -> list[str]:
    """Modules with running statistics beside these parameters, by class."""
    ours = {id(p) for p in parameters}
    names = set()
    for module in _modules_here():
        own, buffers = (vars(module).get(name, {}) for name in ("_parameters", "_buffers"))
        if any(id(p) in ours for p in own.values()) and buffers.get("running_mean") is not None:
            names.add(type(module).__name__)
    return sorted(names)


def warn_of_statistics(parameters: list[Tensor]) -> None:
    """Warn of running statistics that are not averaged."""
    modules = running_statistics(parameters)
    if modules:
        warnings.warn(
            f"{', '.join(modules)}: running statistics are neither broadcast nor averaged, so "
            f"that nodes predict differently even after consensus(); pass model=",
            stacklevel=5,
        )
