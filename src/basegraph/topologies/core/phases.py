"""Values that belong to the rounds of a topology, computed once per phase of its period."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

Value = TypeVar("Value")


class Repeating(Protocol):
    """What may repeat after some steps, such as a topology."""

    @property
    def period(self) -> int | None:
        """After how many steps it repeats; None: never."""


class PerPhase(Generic[Value]):
    """What is computed from a round, looked up again when the same round comes again.

    The rounds of a random topology do not come again: only the latest value is kept.

    Args:
        topology: Whose rounds they are.
        compute: round index -> value.
        keep: Whether a value is worth keeping; all are by default.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> t = topology("base", n=6)
        >>> arcs = PerPhase(t, lambda index: len(t.round(index).senders))
        >>> [arcs(index) for index in range(t.period + 2)]
        [4, 4, 4, 6, 4, 4]

    """

    def __init__(
        self,
        topology: Repeating,
        compute: Callable[[int], Value],
        keep: Callable[[Value], bool] = lambda value: True,
    ) -> None:
        self.topology = topology
        self._compute = compute
        self._keep = keep
        self._values: dict[int, Value] = {}

    def __call__(self, index: int) -> Value:
        """The value of round `index`, counted on over periods."""
        period = self.topology.period
        phase = index if period is None else index % period
        if phase in self._values:
            return self._values[phase]
        if period is None:
            self._values.clear()
        value = self._compute(phase)
        if self._keep(value):
            self._values[phase] = value
        return value
