from __future__ import annotations

import numpy as np
import pytest
import torch

import basegraph as bg
from basegraph.engines.stacked.mixer import StackedMixer, average
from basegraph.engines.stacked.peers import peers_of
from basegraph.topologies.catalog import TWO_STATE_NAMES
from support.mixing import FORMS, forms

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", sorted(set(bg.TOPOLOGIES) - set(TWO_STATE_NAMES)))
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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spec", ["ring", "exponential", "base:k=4"])
def test_forms_agree(spec, form):
    t = bg.topology(spec, n=25)
    x = torch.randn(25, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.as_tensor(t[0].matrix().toarray()) @ x
    # The tables hold float32 weights.
    assert torch.allclose(forms(t, torch.float64)[form](x), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spec", ["ring", "torus", "exponential", "base:k=4"])
def test_nodes_that_agree_stay_where_they_are(spec, form):
    """Bit for bit, although the weights in float32 do not sum to one."""
    x = torch.randn(1, 1000, generator=torch.Generator().manual_seed(0)).expand(25, -1).contiguous()
    assert torch.equal(forms(bg.topology(spec, n=25), torch.float32)[form](x), x)


def test_peers_are_padded_with_the_node_itself():
    peers, weights = peers_of(bg.topology("base", n=5)[0])
    assert peers[4].tolist() == [4]
    assert weights[4].tolist() == [0.0]


def test_average():
    assert average(torch.tensor([[1.0], [3.0]])).tolist() == [[2.0], [2.0]]
