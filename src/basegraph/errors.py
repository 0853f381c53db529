"""What can go wrong, as exceptions a caller can tell apart. All are `ValueError`s."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BasegraphError(ValueError):
    """The common ancestor: catching it catches every complaint of this library."""

    reported_by: int | None = None
    """The node that reports this error for all nodes; None where every node has its own."""
    reported_elsewhere = False
    """Whether another process has the same error, and reports it."""


class RuntimeFailure(BasegraphError):
    """Something failed while it ran: a node, a disk, the training. The arguments were fine."""


class Interrupted(BasegraphError):
    """A signal asked to stop, and what was done until then has been saved.

    Args:
        message: What was stopped, and where it can be continued.
        signal: The number of the signal.

    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


class InvalidArgument(BasegraphError):
    """An argument was refused; the message names it, its value and what is accepted."""

    def __init__(self, argument: str, value: object, accepted: str) -> None:
        super().__init__(f"{argument}={short(value)}: {accepted}")
        self.argument = argument
        self.value = value
        self.accepted = accepted


class InvalidRound(BasegraphError):
    """A round breaks a property that every round must have."""


class NotFiniteTime(BasegraphError):
    """The product of one period's mixing matrices is not exactly J/n."""


class PeerLost(RuntimeFailure):
    """A node did not answer; `node` is its number, where that is known."""

    def __init__(self, message: str, node: int | None = None) -> None:
        super().__init__(message)
        self.node = node


def short(value: object) -> str:
    """A value on one line, truncated."""
    try:
        text = " ".join(repr(value).split())
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:97]}..."


def unknown(argument: str, value: object, known: Iterable[str]) -> InvalidArgument:
    """The refusal of a name that is not among the `known` ones, with a near miss if there is one.

    >>> print(unknown("topology", "bse", ["base", "ring"]))
    topology='bse': did you mean 'base'? Known: base, ring
    >>> print(unknown("methods", "base", ["base:k=2", "base:k=1"]))
    methods='base': did you mean 'base:k=1'? Known: base:k=1, base:k=2
    """
    names = sorted(known)
    longer = [name for name in names if value and name.startswith(str(value))]
    near = longer or difflib.get_close_matches(str(value), names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else "not known. "
    return InvalidArgument(argument, value, f"{hint}Known: {', '.join(names) or 'none'}")
