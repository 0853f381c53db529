"""Hugging Face, Lightning and plain PyTorch: the same numbers, and the examples as they are."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch

from basegraph.errors import BasegraphError
from support.extras import needs
from support.forks import nodes_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FRAMEWORKS = ("accelerate", "lightning", "transformers")


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_makes_the_steps_of_a_plain_loop(framework, tmp_path):
    """Accumulation, clipping, a schedule; every node its own data; one checkpoint for all."""
    needs(framework)
    done = nodes_of(3, "frameworks.py", framework, tmp_path)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-4000:]
    assert done.stdout.count(": the same") == 3


def run_example(name: str, folder: Path, nodes: int) -> str:
    done = nodes_of(nodes, EXAMPLES / f"with_{name}.py", folder)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-4000:]
    return done.stdout


def test_plain_pytorch(tmp_path):
    printed = run_example("torchrun", tmp_path / "whole", 2)
    (accuracy,) = re.findall(r"steps 0 to 200: accuracy (\S+), \d+ kB", printed)
    assert float(accuracy) > 0.9
    assert "steps 200 to 200" in run_example("torchrun", tmp_path / "whole", 2)


@pytest.mark.parametrize(
    ("name", "checkpoints", "said"),
    [
        ("accelerate", "epoch-*", r"accuracy (0\.9\d+|1\.000) after \d+ steps"),
        ("transformers", "checkpoint-*", r"loss of the average 0\.\d+ after 60 steps"),
        ("lightning", "*.ckpt", r"accuracy of the average (0\.9\d+|1\.000) after \d+ steps"),
    ],
)
def test_examples(name, checkpoints, said, tmp_path):
    """They train, and go on from their checkpoints with another number of nodes."""
    needs(name)
    assert re.search(said, run_example(name, tmp_path, 2))
    saved = sorted(tmp_path.glob(checkpoints))
    assert saved
    if name != "lightning":  # which keeps the last one alone
        shutil.rmtree(max(saved, key=lambda path: int(path.name.rpartition("-")[2])))
    assert re.search(said, run_example(name, tmp_path, 3))


def test_optimizers_that_do_not_gossip_are_refused():
    """Each node would train alone."""
    needs("lightning")
    from basegraph.integrations.lightning import GossipStrategy

    alone = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
    with pytest.raises(BasegraphError, match="SGD, with which nodes would not exchange anything"):
        GossipStrategy.require_gossip([alone])
