"""Plain data and numpy arrays out of a pickle that may be hostile.

Nothing that a pickle names is run. numpy's own way to restore an array trusts what it is given (an
array of objects made of arbitrary bytes crashes the process), so arrays are made here, from a type
of plain numbers, a shape and exactly as many bytes. The Unpickler is the one in Python: that in C
takes as much memory as a pickle of ten bytes asks for.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from typing import Any

import numpy as np

NUMBER_TYPES = re.compile(r"[biuf][1248]")
"""Types of plain numbers, as numpy writes them: b1, u1, i8, f4, ..."""
BYTE_ORDERS = ("|", "<", ">", "=")


class PickledArray:
    """An array of numbers as a pickle describes it; `values` when it has been."""

    values: np.ndarray[Any, Any]

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_column, content = state
        if not isinstance(kind, _Kind) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("refuses an array that is not of numbers")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise pickle.UnpicklingError(f"refuses an array of shape {shape}")
        if len(content) != math.prod(shape) * kind.dtype.itemsize:
            raise pickle.UnpicklingError(f"an array of {shape} has {len(content)} bytes")
        flat = np.frombuffer(content, kind.dtype)
        self.values = flat.reshape(shape, order="F" if by_column else "C")


class _Kind:
    """A type of numbers."""

    def __init__(self, code: str | bytes, *how: object) -> None:
        self.code = _text(code)
        if not NUMBER_TYPES.fullmatch(self.code):
            raise pickle.UnpicklingError(f"refuses arrays of type {self.code[:20]!r}")
        self.dtype = np.dtype(self.code)

    def __setstate__(self, state: Any) -> None:
        order = _text(state[1])
        if order not in BYTE_ORDERS or any(part is not None for part in state[2:5]):
            raise pickle.UnpicklingError("refuses arrays of a type with parts")
        self.dtype = np.dtype(f"{order}{self.code}")


def _text(value: str | bytes) -> str:
    """Python 2's strings are bytes here."""
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _array(*described: object) -> PickledArray:
    """An array that is yet to be filled."""
    return PickledArray()


def _encoded(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes in old protocols."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"refuses the encoding {encoding[:20]!r}")
    return text.encode("latin-1")


class _OnlyArrays(pickle._Unpickler):
    """Gives containers, strings, numbers and arrays, and refuses everything else."""

    ALLOWED = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _array,
        ("numpy._core.multiarray", "_reconstruct"): _array,
        ("numpy", "ndarray"): PickledArray,
        ("numpy", "dtype"): _Kind,
        ("_codecs", "encode"): _encoded,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"refuses {module}.{name}")
        return self.ALLOWED[module, name]


def unpickle(content: bytes) -> Any:
    """What a pickle holds, with `PickledArray`s for arrays and bytes for Python 2's strings."""
    return _OnlyArrays(io.BytesIO(content), encoding="bytes").load()
