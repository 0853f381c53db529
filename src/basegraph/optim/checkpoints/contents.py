"""What a node has to save: its model, its optimizer's state and the options of its groups.

Tensors have keys such as `nodes.2.model.head.weight` and `nodes.2.optimizer.head.weight.exp_avg`;
whatever is not a tensor is packed into a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

from basegraph.engines.checkpoint import CheckpointError
from basegraph.engines.distributed import packing
from basegraph.errors import InvalidArgument
from basegraph.models import flat
from basegraph.optim.node_optimizer import NodeOptimizer, parameters_of
from basegraph.optim.state_origin import without_origin

STATE, GROUPS = "state", "param_groups"


class NodeContents:
    """The tensors of a node, by names that are the same at all nodes, and the rest as a text.

    Args:
        model: The module that is trained.
        optimizer: One of ours, of its parameters.

    """

    def __init__(self, model: nn.Module, optimizer: NodeOptimizer) -> None:
        require_trained(model, optimizer)
        self._optimizer = optimizer
        self._module = model
        state, _ = without_origin(get_optimizer_state_dict(model, optimizer))
        self._state: dict[str, dict[str, Any]] = state[STATE]
        self._groups: list[dict[str, Any]] = state[GROUPS]
        tied = second_names(model)
        self.model = {
            f"model.{name}": tensor
            for name, tensor in tensors_of(model).items()
            if name not in tied
        }
        """Parameters and buffers by name; of tied ones the first name."""
        self.optimizer = {
            f"optimizer.{name}.{key}": value
            for name, key, value in _entries(self._state)
            if isinstance(value, Tensor)
        }
        """The optimizer's state by name."""

    def options(self) -> str:
        """The options of the groups, and whatever is not a tensor in the state.

        Raises:
            InvalidArgument: There is something in it that is neither a number nor a text.

        """
        others = [[n, k, v] for n, k, v in _entries(self._state) if not isinstance(v, Tensor)]
        groups = [{k: v for k, v in group.items() if k != "params"} for group in self._groups]
        try:
            text, tensors = packing.pack({"state": others, "groups": _plain(groups)})
        except TypeError as error:
            raise InvalidArgument("optimizer", self.kind, f"cannot be saved: {error}") from None
        if tensors:  # as LBFGS does
            raise InvalidArgument("optimizer", self.kind, "keeps lists of tensors: cannot be saved")
        return text

    @property
    def kind(self) -> str:
        """The optimizer in words, as in "Gossip(AdamW)"."""
        wrapped = getattr(self._optimizer, "optimizer", None)
        inner = self._groups[0].get("algorithm") if wrapped is None else type(wrapped).__name__
        return f"{type(self._optimizer).__name__}({inner})"

    def require_same_groups(self, path: Path, text: str) -> None:
        """Refuse options of another number of parameter groups.

        Args:
            path: Where they are from.
            text: What `options` has returned.

        Raises:
            CheckpointError: The optimizer has more groups, or fewer.

        """
        saved, here = len(packing.unpack(text, [])["groups"]), len(self._groups)
        if saved != here:
            raise CheckpointError(f"{path}: has {saved} parameter groups, the optimizer has {here}")

    def load(self, text: str, names: set[str]) -> None:
        """Have the optimizer go on with these tensors, as they are now, and with these options.

        Args:
            text: What `options` has returned.
            names: Of the optimizer's tensors those that were saved; others begin anew.

        """
        packed = packing.unpack(text, [])
        state = {
            name: {
                key: value
                for key, value in values.items()
                if not isinstance(value, Tensor) or f"optimizer.{name}.{key}" in names
            }
            for name, values in self._state.items()
        }
        for name, key, value in packed["state"]:
            state.get(name, {})[key] = value
        groups = [
            {**group, **{key: _like(group.get(key), value) for key, value in saved.items()}}
            for group, saved in zip(self._groups, packed["groups"], strict=True)
        ]
        set_optimizer_state_dict(
            self._module,
            self._optimizer,
            {STATE: {name: values for name, values in state.items() if values}, GROUPS: groups},
            options=StateDictOptions(strict=False),
        )


def require_ours(optimizer: object) -> None:
    """Refuse an optimizer that is not of this library."""
    if not isinstance(optimizer, NodeOptimizer):
        raise InvalidArgument(
            "optimizer",
            type(optimizer).__name__,
            "must be a bg.Gossip or a bg.DecentralizedOptimizer",
        )


def require_trained(model: nn.Module, optimizer: NodeOptimizer) -> None:
    """Refuse a module that has not all of the optimizer's parameters.

    Raises:
        InvalidArgument: It is another module, a copy, or what a wrapper was made of.

    """
    known = set(model.parameters())
    if not known.issuperset(parameters_of(optimizer)):
        raise InvalidArgument(
            "model", type(model).__name__, "must be the module whose parameters the optimizer has"
        )


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a model by name, without the prefixes of DDP and compilers.

    Raises:
        InvalidArgument: There is something else in its `state_dict`.

    """
    state = get_model_state_dict(model)
    others = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if others:
        raise InvalidArgument("model", others[0], "must be a tensor in the model's state_dict")
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def second_names(model: nn.Module) -> set[str]:
    """The names of tied parameters, except the first of each, also without wrappers' prefixes."""
    second = flat.second_names(model)
    unwrapped = [name.replace("_orig_mod.", "").removeprefix("module.") for name in second]
    return {*second, *unwrapped}


def _entries(state: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    for name, values in state.items():
        for key, value in values.items():
            yield name, str(key), value


def _plain(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Learning rates that are tensors, as numbers."""
    return [
        {k: v.item() if isinstance(v, Tensor) and v.numel() == 1 else v for k, v in group.items()}
        for group in groups
    ]


def _like(before: Any, value: Any) -> Any:
    """A learning rate as a tensor, where it was one."""
    return before.new_full(before.shape, value) if isinstance(before, Tensor) else value
