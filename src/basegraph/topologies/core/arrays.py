"""Small things about integer arrays that rounds are made of."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array as a read-only one: taken over, or copied if it is a view of another.

    >>> numbers = np.arange(3)
    >>> part = frozen(numbers[:2])
    >>> numbers[0] = 7
    >>> part.tolist(), frozen(numbers) is numbers, numbers.flags.writeable
    ([0, 1], False, False)
    """
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
        if owner.flags.writeable:
            return read_only(array.copy())
    if owner.base is not None and array.flags.writeable:  # memory of something else
        return read_only(array.copy())
    if array.flags.owndata:
        array.flags.writeable = False
    return read_only(array)


def quotients(numerators: NDArray[Any], denominators: NDArray[Any] | int) -> FloatArray:
    """numerators / denominators, each correctly rounded.

    >>> quotients(np.array([1, 2]), 3)
    array([0.33333333, 0.66666667])
    """
    largest = denominators if isinstance(denominators, int) else int(denominators.max(initial=1))
    if numerators.dtype != object and largest <= 2**53:
        return numerators / denominators  # both are floats exactly
    pairs = np.broadcast(numerators, denominators)
    return np.array([float(Fraction(int(a), int(b))) for a, b in pairs], dtype=np.float64)


def distinct(values: IntArray) -> list[int]:
    """The distinct values, ascending; quick for the long constant runs that rounds are made of.

    >>> distinct(np.array([3, 3, 2, 2, 3]))
    [2, 3]
    """
    if not len(values):
        return []
    starts = np.flatnonzero(np.diff(values)) + 1
    return sorted({int(values[0]), *values[starts].tolist()})


def largest_size(values: IntArray) -> int:
    """The largest absolute value; 0 where there is none.

    >>> largest_size(np.array([-3, 2]))
    3
    """
    return max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
