"""Random numbers by key: the bits that numpy's Philox gives, whoever asks."""

from __future__ import annotations

import numpy as np
import pytest

import basegraph as bg
from basegraph.topologies.core.random import generator, integers, philox


@pytest.mark.parametrize("seed", [0, 7, 2**63, 2**64 - 1])
@pytest.mark.parametrize("stream", [0, 1, 2**64 - 1])
def test_a_key_is_seed_and_stream(seed, stream):
    key = np.array([seed, stream], dtype=np.uint64)
    for counter in ((0, 0, 0, 0), (5, 0, 2**64 - 1, 1)):
        numbers = np.random.Philox(key=key, counter=np.array(counter, dtype=np.uint64))
        assert np.array_equal(philox(seed, stream, counter).random_raw(9), numbers.random_raw(9))
    normal = np.random.Generator(np.random.Philox(key=key)).standard_normal(5)
    assert np.array_equal(generator(seed, stream).standard_normal(5), normal)


def test_a_seed_alone_is_a_key():
    for seed in (0, 3, 2**70):
        numbers = np.random.Philox(key=seed).random_raw(5)
        assert np.array_equal(philox(seed).random_raw(5), numbers)


def test_integers_by_seed_step_and_stream():
    drawn = {
        tuple(integers(0, 10**9, 4, seed=seed, step=step, stream=stream))
        for seed in (0, 1)
        for step in (0, 1)
        for stream in (0, 1)
    }
    assert len(drawn) == 8
    assert integers(1, 7, 5, seed=0, step=3) == [2, 6, 1, 1, 5]
    for wrong in ({"seed": -1, "step": 0}, {"seed": 0, "step": 2**64}):
        with pytest.raises(bg.InvalidArgument, match="must be an integer"):
            integers(0, 2, 1, **wrong)
