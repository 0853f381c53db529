"""Numbers as people write them, taken exactly: 0.1 is 1/10."""

from __future__ import annotations

import re
from fractions import Fraction

from basegraph.errors import InvalidArgument

LARGEST = 2**62
"""Denominators stay below this, so that weights are pairs of int64."""
_WRITTEN = re.compile(r"\d{1,40}(\.\d{1,40})?(e-?\d{1,2})?|\d{1,40}/\d{1,40}", re.IGNORECASE)


def rational(
    argument: str, value: object, accepted: str = "must be a number in (0, 1]"
) -> Fraction:
    """A number in (0, 1] as an exact fraction.

    >>> rational("eta", 0.1), rational("eta", "2/3")
    (Fraction(1, 10), Fraction(2, 3))
    """
    text = str(value)
    if not _WRITTEN.fullmatch(text):
        raise InvalidArgument(argument, value, accepted)
    try:
        number = Fraction(text)
    except ZeroDivisionError:
        raise InvalidArgument(argument, value, accepted) from None
    if not 0 < number <= 1:
        raise InvalidArgument(argument, value, accepted)
    if number.denominator >= LARGEST:
        raise InvalidArgument(argument, value, "must have a denominator below 2**62")
    return number
