"""A method whose options may differ between parameter groups and change from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from basegraph.algorithms.catalog import ALGORITHMS, algorithm
from basegraph.algorithms.method import Method
from basegraph.errors import InvalidArgument


class Family:
    """A method of the catalogue for any choice of its options, or one that is bound already.

    >>> Family("dsgdm").defaults
    {'momentum': 0.9, 'nesterov': False}
    """

    def __init__(self, name: str | Method) -> None:
        if isinstance(name, str) and name not in ALGORITHMS:
            algorithm(name)  # which refuses it
        self._name = name
        self._known: dict[tuple[Any, ...], Method] = {}

    @property
    def defaults(self) -> dict[str, Any]:
        """The options that a parameter group may set, with their defaults."""
        return {} if isinstance(self._name, Method) else dict(ALGORITHMS[self._name].options)

    def require_known(self, options: Mapping[str, Any]) -> None:
        """Refuse options that the method does not have."""
        for option, value in options.items():
            if isinstance(self._name, Method):
                raise InvalidArgument(
                    option, value, f"is bound in the method {self._name.name} already"
                )
            if option not in self.defaults:
                raise InvalidArgument(option, value, f"{self._name} has no such option")

    def options(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """The method's options in a parameter group."""
        return {name: group[name] for name in self.defaults}

    def method(self, group: Mapping[str, Any]) -> Method:
        """The method with the options of a parameter group."""
        if isinstance(self._name, Method):
            return self._name
        options = self.options(group)
        key = tuple(options.values())
        if key not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()  # a scheduler changes an option at every step
            self._known[key] = algorithm(self._name, **options)
        return self._known[key]


KEPT = 64
"""Choices of options that are remembered."""
