from __future__ import annotations

import pytest

import basegraph as bg


def test_bytes_per_round():
    base = bg.bytes_per_round(bg.topology("base", n=5), parameters=10)
    sent = [4, 4, 4, 4, 4]  # of five nodes, four talk in every round
    assert base == (40, 40 * sum(sent) / 25, 5 * 40)
    ring = bg.bytes_per_round(bg.topology("ring", n=5), parameters=10, itemsize=2)
    assert ring == (40, 40.0, 40)
    with pytest.raises(bg.InvalidArgument, match="must have a period"):
        bg.bytes_per_round(bg.topology("one-peer-d-equidyn", n=5), parameters=1)
    with pytest.raises(bg.InvalidArgument, match="parameters=-1"):
        bg.bytes_per_round(bg.topology("ring", n=5), parameters=-1)
