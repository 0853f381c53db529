"""Small files in the formats of published datasets."""

from __future__ import annotations

import struct

import numpy as np


def idx(array: np.ndarray) -> bytes:
    """An array of bytes as an idx file, the format of MNIST."""
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()
