"""The state of a wrapped optimizer with what `Gossip` adds to it, in the form of torch's own.

`torch.distributed.checkpoint` knows two things of an optimizer: a state by parameter, and options
by group. So an outer method's vectors are shown by parameter, beside the optimizer's own state, and
the number of steps made is in every group.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from basegraph.engines.distributed.outer_step import OuterStep
from basegraph.errors import InvalidArgument
from basegraph.optim.state_views import StateViews

STEP = "gossip_step"
"""The key of the number of steps in a group."""
OUTER = "outer_"
"""What the names of the outer method's vectors begin with."""


class WrappedState:
    """The state of a wrapped optimizer, and of the outer method if there is one.

    Args:
        optimizer: The wrapped optimizer.
        outer: The outer method's steps, or None.
        views: How flat vectors are shown by parameter.

    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, outer: OuterStep | None, views: StateViews
    ) -> None:
        self._optimizer = optimizer
        self._outer = outer
        self._views = views

    def by_parameter(self) -> defaultdict[Tensor, Any]:
        """What `torch.optim.Optimizer.state` holds."""
        own = self._optimizer.state
        if self._outer is None:
            return own
        merged = defaultdict(dict, {p: dict(values) for p, values in own.items()})
        for p, shown in self._views.of(self._outer_vectors()):
            if shown:  # an entry would mean that there is a state
                merged[p].update(shown)
        return merged

    def pack(self, average_at: int | None = None) -> dict[str, Any]:
        """What `torch.optim.Optimizer.state_dict` returns.

        Args:
            average_at: The number of steps made, if the model is the average of all nodes now and
                the state is to be one that any of them can go on with.

        """
        packed = self._optimizer.state_dict()
        for number, shown in enumerate(self._views.by_parameter(self._outer_vectors(average_at))):
            if shown:
                packed["state"].setdefault(number, {}).update(shown)
        return packed

    def load(self, packed: Mapping[str, Any]) -> int:
        """Continue from what `pack` has returned.

        Returns:
            The number of steps made.

        Raises:
            InvalidArgument: It is not such a state, or of another outer method.

        """
        groups, state = packed.get("param_groups"), packed.get("state")
        if not groups or state is None or any(STEP not in group for group in groups):
            raise InvalidArgument(
                "state_dict",
                sorted(packed),
                "is not a state of Gossip; load one of the inner optimizer there",
            )
        added = {name for values in state.values() for name in values if _is_outer(name)}
        self._require_outer(added, int(groups[0][STEP]))
        own = {
            number: {name: value for name, value in values.items() if not _is_outer(name)}
            for number, values in state.items()
        }
        self._optimizer.load_state_dict({**packed, "state": {n: v for n, v in own.items() if v}})
        if self._outer is not None:
            self._load_outer(self._outer, state, groups)
        return int(groups[0][STEP])

    def _require_outer(self, added: set[str], step: int) -> None:
        expected = set() if self._outer is None else set(_outer_names(self._outer.fresh()))
        if (step > 0 or added) and bool(added) != bool(expected):
            asked = "with" if expected else "without"
            raise InvalidArgument(
                "state_dict", sorted(added), f"must be of a Gossip {asked} outer="
            )
        if added and self._outer is not None and added != expected:
            name = self._outer.method.name
            raise InvalidArgument("state_dict", sorted(added), f"must be an outer state of {name}")

    def _load_outer(
        self, outer: OuterStep, state: Mapping[Any, Any], groups: list[dict[str, Any]]
    ) -> None:
        """Parameters have numbers in a state_dict, or names if torch has put them there."""
        vectors = outer.fresh()
        numbers = [number for group in groups for number in group["params"]]
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        by_parameter = {p: state.get(n, {}) for n, p in zip(numbers, parameters, strict=True)}
        if not any(by_parameter.values()):
            outer.load({})
            return
        self._views.load(_outer_names(vectors), by_parameter)
        outer.load(vectors)

    def _outer_vectors(self, average_at: int | None = None) -> dict[str, Tensor]:
        outer = self._outer
        if outer is None:
            return {}
        own = outer.vectors() if average_at is None else outer.vectors_from_here(average_at)
        return _outer_names(own)


def _outer_names(vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The vectors by the names that they have in a state: "outer_x", "outer_momentum"."""
    return {OUTER + name.removeprefix("state."): vector for name, vector in vectors.items()}


def _is_outer(name: object) -> bool:
    return isinstance(name, str) and name.startswith(OUTER)


def asked_for_state_only() -> bool:
    """Whether this step is torch's way to have an optimizer make its state, and no real step.

    `torch.distributed.checkpoint.state_dict` calls `step()` with zero gradients and lr 0 on an
    optimizer without a state. It would count as a step, and the other nodes know nothing of it.
    """
    frame = sys._getframe(1)
    for _ in range(DEPTH):
        if frame.f_code.co_name == "_init_optim_state":
            return bool(frame.f_globals.get("__name__", "").startswith("torch.distributed."))
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


DEPTH = 8
"""Frames between torch's call and ours: its profiler, hooks and contexts, and some to spare."""
