"""The captured engine beside the plain one; without a GPU its functions are called instead."""

from __future__ import annotations

import pytest
import torch

from basegraph.data.catalog import load
from basegraph.engines.captured import graph as captured
from basegraph.engines.select import single_process_engine
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU: the captured step is not tested"
)
DIGITS = load("digits")


class NotCaptured(captured.CapturedStep):
    """The step's functions, called instead of replayed."""

    def _try_out(self, body, source, target):
        """There is nothing to choose."""

    def _capture(self, body, source, target, pool):
        step = self

        class Graph:
            def pool(self):
                return None

            def replay(self):
                losses = body(step.tables, step.counter, source, target)
                step.losses.index_copy_(0, step.counter, losses[None])
                step.counter.add_(1)

        return Graph()


def make(kind=single_process_engine, seeds=(0,), **fields):
    configs = [
        RunConfig(**{"nodes": 6, "epochs": 20, "lr": 0.02, **fields, "seed": seed})
        for seed in seeds
    ]
    modules = [build("mlp", DIGITS.shape, 10, config.seed) for config in configs]
    return kind(DIGITS, [Problem(c, DIGITS, m) for c, m in zip(configs, modules, strict=True)])


def assert_same_losses(fast, plain):
    for ours, theirs in zip(fast.losses(), plain.losses(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
