"""A method whose options may differ between parameter groups and change from step to step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from basegraph.algorithms.catalog import ALGORITHMS, parse_algorithm
from basegraph.algorithms.method import Method
from basegraph.algorithms.outer import with_outer
from basegraph.engines.own_method import require_sound
from basegraph.errors import InvalidArgument, unknown
from basegraph.specs import refuse_twice

KEPT = 64
"""Choices of options that are remembered."""
GROUP_KEYS = (
    *("params", "param_names", "name", "gossip_step", "algorithm"),
    *("initial_lr", "max_lr", "min_lr", "swa_lr", "base_momentum", "max_momentum"),
)
"""What a parameter group may hold besides options: names, and what torch's schedulers add."""


class Family:
    """A method of the catalogue for any choice of its options, or one that is bound already.

    With an outer method and its learning rate, each is composed with that.

    >>> Family("dsgdm:momentum=0.5").defaults
    {'momentum': 0.5, 'nesterov': False}
    """

    def __init__(self, spec: str | Method, outer: tuple[Method, float] | None = None) -> None:
        self._known: dict[tuple[Any, ...], Method] = {}
        self._bound = spec if isinstance(spec, Method) else None
        if self._bound is not None:
            require_sound(self._bound)
        self._name, self._written = ("", {}) if self._bound else parse_algorithm(str(spec))
        known = {} if self._bound else ALGORITHMS[self._name].options
        self.defaults: dict[str, Any] = {**known, **self._written}
        """The options that a parameter group may set, with their defaults."""
        self._outer = outer
        self.name = self.method(self.defaults).name

    def require_known(self, options: Mapping[str, Any]) -> None:
        """Refuse options that the method does not have, or that its spec has set."""
        for option, value in options.items():
            if self._bound is not None:
                raise InvalidArgument(
                    option, value, f"is bound in the method {self._bound.name} already"
                )
            if option not in self.defaults:
                raise InvalidArgument(option, value, f"{self._name} has no such option")
        refuse_twice(self._name, self._written, options)

    def require_group(self, group: Mapping[str, Any]) -> None:
        """Refuse a parameter group that has an unknown option, or a wrong value of one."""
        known = ("lr", "weight_decay", *self.defaults)
        for key in group:
            if key not in known and key not in GROUP_KEYS:
                raise unknown("option of a parameter group", key, known)
        for name in ("lr", "weight_decay"):
            _require_number(name, group[name])
        self.method(group)

    def options(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """The method's options in a parameter group."""
        return {name: group[name] for name in self.defaults}

    def method(self, group: Mapping[str, Any]) -> Method:
        """The method with the options of a parameter group."""
        options = self.options(group)
        key = tuple(options.values())
        if key not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()  # a scheduler changes an option at every step
            inner = self._bound or ALGORITHMS[self._name](**options)
            self._known[key] = inner if self._outer is None else with_outer(inner, *self._outer)
        return self._known[key]

    def require_alike(self, groups: Iterable[Mapping[str, Any]]) -> None:
        """Refuse parameter groups whose methods cannot be stepped together.

        Raises:
            InvalidArgument: They send different numbers of vectors, or need different numbers
                where a node has one (AdamW's sums of weights).

        """
        groups = list(groups)
        for option in ("beta1", "beta2"):
            values = [group[option] for group in groups if option in self.defaults]
            if len(set(values)) > 1:
                raise InvalidArgument(option, values[-1], "must be the same in all groups")
        methods = list(dict.fromkeys(map(self.method, groups)))
        if len({method.messages for method in methods}) > 1:
            specs = [method.spec or method.name for method in methods]
            raise InvalidArgument("params", specs, "must send as many vectors in all groups")


def _require_number(name: str, value: object) -> None:
    number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
        raise InvalidArgument(name, value, "must be a number ≥ 0")
