"""Checks of methods' options, for factories to begin with."""

from __future__ import annotations

import math
from collections.abc import Sequence

from basegraph.errors import InvalidArgument


def below_one(**option: float) -> None:
    """Refuse an option that is not a number in [0, 1), as momentum must be.

    >>> below_one(momentum=1.0)
    Traceback (most recent call last):
        ...
    basegraph.errors.InvalidArgument: momentum=1.0: must be a number in [0, 1)
    """
    for name, value in option.items():
        if not 0 <= value < 1:
            raise InvalidArgument(name, value, "must be a number in [0, 1)")


def share(**option: float) -> None:
    """Refuse an option that is not a number in (0, 1], as damping must be."""
    for name, value in option.items():
        if not 0 < value <= 1:
            raise InvalidArgument(name, value, "must be a number in (0, 1]")


def above_zero(**option: float) -> None:
    """Refuse an option that is not a number above 0, as a divisor must be."""
    for name, value in option.items():
        if not 0 < value < math.inf:
            raise InvalidArgument(name, value, "must be a number above 0")


def one_of(accepted: Sequence[str], **option: str) -> None:
    """Refuse an option that is not one of a few texts."""
    for name, value in option.items():
        if value not in accepted:
            raise InvalidArgument(name, value, f"must be {' or '.join(accepted)}")
