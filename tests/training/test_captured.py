"""The captured step on a GPU: the same numbers as the plain engine on the CPU."""

from __future__ import annotations

import pytest
import torch

from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.data.catalog import load
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.engine import StackedEngine
from basegraph.training.run import train

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU: the captured step is not tested"
)


def after_steps(steps: int, **fields: object) -> torch.Tensor:
    dataset = load("digits")
    config = RunConfig(nodes=6, epochs=20, lr=0.02, momentum=0.5, allow_unstable=True, **fields)
    engine = StackedEngine(config, dataset, build("mlp", dataset.shape, 10, config.seed))
    for _ in range(steps):
        engine.advance()
    return engine.x_nd.cpu()


@needs_gpu
@pytest.mark.parametrize("spec", ["base:k=1", "exponential", "one-peer-u-equidyn"])
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_captured_step_is_the_plain_step(name, spec):
    fields = {"algorithm": name, "topology": spec, "augment": "crop+flip+erase"}
    if name != "allreduce-sgd":
        fields["local_steps"] = 2
    captured = after_steps(12, device="cuda", capture=True, **fields)
    plain = after_steps(12, device="cpu", **fields)
    assert torch.allclose(captured, plain, atol=2e-6)


@needs_gpu
def test_a_captured_run_resumes(tmp_path):
    config = RunConfig(nodes=5, epochs=6, evaluate_every=1, device="cuda")
    whole = train(config, tmp_path / "run")
    again = train(config, tmp_path / "run", resume=True)
    assert [row["epoch"] for row in again] == [row["epoch"] for row in whole]
