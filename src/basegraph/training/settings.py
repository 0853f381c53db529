"""What is known about a field of a configuration: kept at the field itself, as its metadata."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple, TypeVar

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least

T = TypeVar("T", str, int, float, bool)
_WORDS = {str: "text", int: "an integer", float: "a number", bool: "true or false"}


class Setting(NamedTuple):
    """What is known about a field besides its type and default."""

    help: str
    free: bool = False
    """Whether it may change when a run is resumed: it does not change what the run computes."""
    stacks: bool = False
    """Whether runs that are trained side by side may differ in it."""
    local: bool = False
    """Whether the nodes of a distributed job may differ in it."""
    option: bool = False
    """Whether it is an option of methods, which a spec such as dsgdm:momentum=0.5 may give too."""
    low: int | None = None
    """The smallest integer that is accepted."""
    below: int = 2**63
    """Integers must be smaller than this."""
    number: tuple[str, Callable[[float], bool]] | None = None
    """Which numbers are accepted: in words, and as a test."""
    one_of: tuple[str, ...] = ()
    """The texts that are accepted, if they are few."""
    missing: Any = None
    """What a configuration meant that was saved before the field existed, if not the default."""


def setting(default: T, help: str, **facts: Any) -> T:
    """A field with its default, its line of help, and the other facts of a `Setting`."""
    return field(default=default, metadata={"setting": Setting(help, **facts)})


def typed(name: str, value: object, default: object) -> object:
    """A value of the same type as the default, refused if it is of another.

    An integer may stand for a number.
    """
    kind = type(default)
    if kind is float and isinstance(value, int) and abs(value) < 2**53 and value is not True:
        return float(value)
    if kind is str and not str(value).isprintable():
        raise InvalidArgument(name, value, "must be printable text")
    if type(value) is not kind:
        raise InvalidArgument(name, value, f"must be {_WORDS[kind]}")
    return value


def require_accepted(name: str, value: Any, known: Setting) -> None:
    """Refuse a value, of the right type, that the setting does not accept."""
    if known.low is not None:
        at_least(known.low, below=known.below, **{name: value})
    if known.number is not None:
        words, accepts = known.number
        if not math.isfinite(value) or not accepts(value):
            raise InvalidArgument(name, value, f"must be a number {words}")
    if known.one_of and value not in known.one_of:
        *others, last = known.one_of
        raise InvalidArgument(name, value, f"must be {', '.join(others)} or {last}")
