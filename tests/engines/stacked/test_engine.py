"""The stacked engine against a naive implementation, and its steps in blocks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.data.augment import gather
from basegraph.data.catalog import load
from basegraph.engines.stacked import update
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem
from support.mixing import spec_for

SHORT = {"nodes": 5, "epochs": 4, "batch": 16, "evaluate_every": 1}


def engine(**changes):
    config = RunConfig(**{**SHORT, **changes})
    dataset = load("digits")
    module = build("mlp", dataset.shape, 10, config.seed)
    return StackedEngine(dataset, [Problem(config, dataset, module)])


class Naive:
    """dsgdm with n separate modules and hand-written loops; shares only the data plan."""

    def __init__(self, reference: StackedEngine):
        self.nodes, self.planned = reference.nodes, reference.planned
        config = self.nodes.config
        self.models = [
            build("mlp", (1, 8, 8), 10, config.seed).double() for _ in range(config.nodes)
        ]
        self.momenta = [[torch.zeros_like(p) for p in m.parameters()] for m in self.models]

    def step(self, step):
        config, data = self.nodes.config, self.nodes.data
        planned = self.planned(step)
        samples = gather(data.inputs, **planned, mean=data.mean, std=data.std)
        labels = data.targets[planned["sample"]]
        total = config.epochs * self.nodes.steps_per_epoch
        lr = config.lr * (1 + np.cos(np.pi * step / total)) / 2
        half = []
        for i, model in enumerate(self.models):
            loss = nn.functional.cross_entropy(model(samples[i].double()), labels[i])
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            moved = []
            for u, g, p in zip(self.momenta[i], gradients, model.parameters(), strict=True):
                u.mul_(config.momentum).add_(g + config.weight_decay * p.detach())
                moved.append(p.detach() - lr * u)
            half.append(moved)
        if (step + 1) % config.local_steps:
            mixed = half
        else:
            matrix = (
                self.nodes.problems[0].topology.round(step // config.local_steps).matrix().toarray()
            )
            mixed = [
                [
                    sum(float(w) * half[j][k] for j, w in enumerate(row) if w)
                    for k in range(len(half[0]))
                ]
                for row in matrix
            ]
        for model, values in zip(self.models, mixed, strict=True):
            for p, value in zip(model.parameters(), values, strict=True):
                p.data.copy_(value)

    def parameters(self):
        return torch.stack(
            [torch.cat([p.detach().reshape(-1) for p in m.parameters()]) for m in self.models]
        )


@pytest.mark.parametrize("changes", [{}, {"local_steps": 3}, {"weight_decay": 0.01}])
@pytest.mark.parametrize("spec", ["base:k=1", "exponential", "one-peer-u-equidyn"])
def test_equals_a_naive_implementation(spec, changes):
    stacked = engine(topology=spec, **changes)
    naive = Naive(stacked)
    for step in range(20):
        stacked.advance()
        naive.step(step)
    assert (stacked.nodes.x_nd.double() - naive.parameters()).abs().max() < 2e-5


def test_adamw_is_torchs_with_two_groups():
    """A run's own weight decay: of weights, not of biases and norms."""
    stacked = engine(nodes=1, algorithm="adamw", weight_decay=0.5, lr=1e-3)
    nodes = stacked.nodes
    module = build("mlp", (1, 8, 8), 10, 0)
    parameters = list(module.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.5},
            {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
        ]
    )
    for step in range(20):
        optimizer.zero_grad()
        planned = stacked.planned(step)
        samples, labels = nodes.data.batch(planned)
        nn.functional.cross_entropy(module(samples[0]), labels[0]).backward()
        for group in optimizer.param_groups:
            group["lr"] = nodes.problems[0].learning_rate(step)
        optimizer.step()
        stacked.advance()
    expected = torch.cat([p.detach().reshape(-1) for p in parameters])
    assert torch.allclose(nodes.x_nd[0], expected, rtol=0, atol=2e-6)


OUTER = "adamw with an outer step"


@pytest.mark.parametrize("name", [*sorted(ALGORITHMS), OUTER])
def test_updates_in_blocks_are_the_same(name, monkeypatch):
    outer = {"outer": "dsgdm:nesterov=true", "local_steps": 4} if name == OUTER else {}
    name = name.partition(" ")[0]
    damping = {"damping": "auto"} if name == "d2" else {}
    momentum = {"momentum": 0.5} if "momentum" in ALGORITHMS[name].options else {}
    changes = {"algorithm": name, "allow_unstable": True, "weight_decay": 0.01}
    changes |= {**momentum, **damping, **outer, "lr": 1e-3 if "adamw" in name else 0.1}
    changes["topology"] = spec_for(name)
    whole = engine(**changes)
    for _ in range(6):
        whole.advance()
    monkeypatch.setattr(update, "BLOCK_NUMBERS", 5 * 1000)
    blocks = engine(**changes)
    for _ in range(6):
        blocks.advance()
    assert torch.allclose(whole.nodes.x_nd, blocks.nodes.x_nd, atol=1e-6)
    for a, b in zip(whole.nodes.state, blocks.nodes.state, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
