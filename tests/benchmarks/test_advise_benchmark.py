"""The benchmark of predicted step times: its steps compute for as long as asked, in both passes."""

from __future__ import annotations

import sys
import time

import pytest
import torch

from support.forks import run_python
from support.launch import TESTS

BENCHMARKS = TESTS.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import advise  # noqa: E402
import netns  # noqa: E402


def test_a_step_sleeps_before_every_gradient(monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    net = advise.Sleeper("lenet", 3.0)
    net(torch.ones((), requires_grad=True)).backward()
    count = len(list(net.parameters()))
    assert sum(slept[:count]) == pytest.approx(1)
    assert sum(slept[count:]) == pytest.approx(2)
    assert len(slept) == 2 * count
    assert all(p.grad is not None for p in net.parameters())


@pytest.mark.slow
def test_predicted_beside_measured():
    try:
        netns.enclosed(["true"])
    except netns.NoNamespaces as refusal:
        pytest.skip(str(refusal))
    options = ["--netns", "--ranks", 2, "--model", "lenet", "--step-time", "5ms", "--rounds", 1]
    text = run_python(BENCHMARKS / "advise.py", *options).stdout
    rows = [line.split() for line in text.splitlines() if line.split()[:3] == ["2", "lenet", "5ms"]]
    assert [row[3].rstrip(",") for row in rows] == ["DDP", *["base:k=1"] * 2, *["ring"] * 2]
    assert all(float(cell) > 0 for row in rows for cell in row[-3:])
