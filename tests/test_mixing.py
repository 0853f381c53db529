from __future__ import annotations

import numpy as np
import pytest
import torch

import basegraph as bg
from basegraph.mixing.plan import plan
from basegraph.mixing.stacked import StackedMixer, average, few_neighbours

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", sorted(bg.TOPOLOGIES))
def test_every_topology_mixes_as_its_matrix(name):
    n = 8
    t = bg.topology(name, n=n)
    mixer = StackedMixer(t, CPU, torch.float64)
    x = torch.randn(n, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for step in (0, 1, 2, 9):
        expected = t.round(step).matrix().toarray() @ x.numpy()
        assert np.allclose(mixer.round(step)(x).numpy(), expected, atol=1e-14)


@pytest.mark.parametrize("spec", ["base:k=3", "exponential", "torus", "ring"])
def test_many_nodes_mix_by_gathering(spec):
    t = bg.topology(spec, n=700)
    mixer = StackedMixer(t, CPU, torch.float64)
    x = torch.randn(700, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for step in range(t.period):
        expected = t.round(step).matrix() @ x.numpy()
        assert np.allclose(mixer.round(step)(x).numpy(), expected, atol=1e-13)


def test_forms_agree():
    r = bg.topology("base:k=4", n=25)[1]
    peers, weights, own = (torch.tensor(part) for part in plan(r))
    x = torch.randn(25, 5, dtype=torch.float64)
    gathered = few_neighbours(peers, weights, own[:, None])(x)
    assert torch.allclose(gathered, torch.as_tensor(r.matrix().toarray()) @ x)


def test_plan_pads_with_the_node_itself():
    peers, weights, own = plan(bg.topology("base", n=5)[0])
    assert peers[4].tolist() == [4]
    assert weights[4].tolist() == [0.0]
    assert own[4] == 1.0


def test_average():
    assert average(torch.tensor([[1.0], [3.0]])).tolist() == [[2.0], [2.0]]
