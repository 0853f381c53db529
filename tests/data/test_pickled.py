"""Pickles of CIFAR batches that somebody else may have written: no code, no more memory."""

from __future__ import annotations

import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from basegraph.data.dataset import DataError
from basegraph.data.formats import parse_cifar_python


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/should-not-exist",)


def test_a_pickle_with_code_in_it_is_refused():
    with pytest.raises(DataError, match=r"refuses (posix|nt)\.system"):
        parse_cifar_python(pickle.dumps({b"data": Evil()}), "x", b"labels")
    assert not Path("/tmp/should-not-exist").exists()


def restored(dtype, content, shape=(1, 3072), state=(3, "|", None, None, None, -1, -1, 0)):
    """A pickle of an array as numpy's own pickles describe it, with anything for its content."""

    class Kind:
        def __reduce__(self):
            return np.dtype, (dtype, False, True), state

    class Array:
        def __reduce__(self):
            reconstruct = np.array(0).__reduce__()[0]
            return reconstruct, (np.ndarray, (0,), b"b"), (1, shape, Kind(), False, content)

    return pickle.dumps({b"data": Array(), b"labels": [0]}, protocol=2)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (restored("O8", [0] * 3072), "refuses arrays of type 'O8'"),
        (restored("O", b"A" * 8 * 3072), "refuses arrays of type 'O'"),
        (restored("V8", bytes(8 * 3072)), "refuses arrays of type 'V8'"),
        (restored("u1", [0] * 3072), "refuses an array that is not of numbers"),
        (restored("u1", bytes(10)), "an array of .* has 10 bytes"),
        (restored("u1", bytes(3072), (-1, -3072)), "refuses an array of shape"),
        (
            restored("i8", bytes(8 * 3072), state=(3, "|", None, ("a",), {"a": 1}, 8, 8, 0)),
            "refuses arrays of a type with parts",
        ),
        (restored("f8", bytes(8 * 3072)), "data must be an array of bytes"),
        (pickle.dumps({b"data": [0] * 3072, b"labels": [0]}), "data must be an array of bytes"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", "is not a CIFAR batch"),
    ],
)
def test_hostile_arrays_are_refused(content, complaint):
    with pytest.raises(DataError, match=complaint):
        parse_cifar_python(content, "x", b"labels")


@pytest.mark.parametrize("labels", [[0.5], [[0]], (0,), ["0"], [2**70]])
def test_labels_that_are_no_list_of_integers_are_refused(labels):
    batch = {b"data": np.zeros((1, 3072), np.uint8), b"labels": labels}
    with pytest.raises(DataError, match="is not a CIFAR batch"):
        parse_cifar_python(pickle.dumps(batch, protocol=2), "x", b"labels")


def test_a_pickle_that_asks_for_memory_does_not_get_it():
    batch = {b"data": np.zeros((1, 3072), np.uint8), b"labels": [0]}
    content = pickle.dumps(batch, protocol=2)
    place = b"r" + (2**24).to_bytes(4, "little")  # "remember the dictionary under this number"
    tracemalloc.start()
    split = parse_cifar_python(content[:-1] + place + b".", "x", b"labels")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert split.targets.tolist() == [0]
    assert peak < 10**7
