"""How far models are apart: exact, and without copies of all models in a wider type."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from basegraph.engines import evaluation
from basegraph.engines.evaluation import consensus_distance


class Largest(TorchDispatchMode):
    """Remembers the largest float64 tensor that any operation has made."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        made = function(*arguments, **(options or {}))
        if isinstance(made, torch.Tensor) and made.dtype is torch.float64:
            self.numbers = max(self.numbers, made.numel())
        return made


@pytest.mark.parametrize("width", [1, 7, 100, 101, 10**6])
def test_the_consensus_distance_in_pieces(monkeypatch, width):
    monkeypatch.setattr(evaluation, "WIDENED", 6 * width)
    x_nd = 1e3 + torch.randn(6, 101, generator=torch.Generator().manual_seed(0))
    expected = float((x_nd.double() - x_nd.double().mean(dim=0)).square().sum() / 6)
    with Largest() as largest:
        distance = consensus_distance(x_nd)
    assert distance == pytest.approx(expected, rel=1e-12)
    assert largest.numbers <= 6 * width
