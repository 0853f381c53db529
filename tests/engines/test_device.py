from __future__ import annotations

import warnings

import numpy as np
import torch

from basegraph.data.dataset import Split
from basegraph.engines.device import on_device


def test_read_only_arrays_are_taken_without_a_warning():
    """As memory-mapped files and buffers give them; torch would warn, once per process."""
    images, labels = np.zeros((2, 1, 4, 4), np.uint8), np.arange(2)
    for part in (images, labels):
        part.flags.writeable = False
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tensors = on_device(Split(images, labels), torch.device("cpu"))
    finally:
        torch.set_warn_always(False)
    assert tensors[1].tolist() == [0, 1]
    assert tensors[0].data_ptr() != images.ctypes.data


def test_writable_arrays_are_not_copied():
    images, labels = np.zeros((2, 1, 4, 4), np.uint8), np.arange(2)
    tensors = on_device(Split(images, labels), torch.device("cpu"))
    assert tensors[0].data_ptr() == images.ctypes.data
