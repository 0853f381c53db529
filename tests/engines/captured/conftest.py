"""Captured engines where there is no GPU."""

from __future__ import annotations

import pytest
import torch

from basegraph.engines.captured import engine
from support.captured import NotCaptured


@pytest.fixture
def not_captured(monkeypatch):
    """Captured engines work on a CPU too, and pin no memory."""
    monkeypatch.setattr(engine, "CapturedStep", NotCaptured)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
