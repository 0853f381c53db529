"""What a run needs is estimated before the work: too much is refused at once."""

from __future__ import annotations

import pytest

import basegraph as bg
from basegraph.training import memory, replica
from basegraph.training.config import RunConfig
from basegraph.training.run import train


@pytest.mark.parametrize(
    ("fields", "free", "complaint"),
    [
        ({"nodes": 10**7}, 2**40, "nodes=10000000: must be at most the 1295 training samples"),
        ({"nodes": 900, "validation": 0.5}, 2**40, "nodes=900: must be at most the 719 training"),
        ({"nodes": 1000}, 2**20, "mlp with 1000 nodes and batch 32 needs about .* GiB"),
    ],
)
def test_refused_before_topology_and_split_are_built(
    fields, free, complaint, monkeypatch, tmp_path
):
    def built(*arguments):
        raise AssertionError("built before the size was looked at")

    monkeypatch.setattr(replica, "topology", built)
    monkeypatch.setattr(replica, "dirichlet", built)
    monkeypatch.setattr(memory, "free_memory", lambda device: free)
    with pytest.raises(bg.BasegraphError, match=complaint):
        train(RunConfig(epochs=3, **fields), tmp_path / "run")
    assert not (tmp_path / "run").exists()
