"""How good the nodes' models are, each by itself, and how far apart."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from basegraph.models.flat import FlatModel

CHUNK = 1000
"""Samples that are evaluated at a time."""


class Accuracy(NamedTuple):
    """Shares of correct answers on one set."""

    mean: float
    """Over nodes, of each node's own model: what the paper reports."""
    averaged: float
    """Of the average of all models."""
    worst: float
    """Of the worst node."""


@torch.no_grad()
def accuracy(model: FlatModel, x_nd: Tensor, samples: Tensor, labels: Tensor) -> Accuracy:
    """Evaluate every node and the averaged model on the same samples (N, ...)."""
    models = [*x_nd, x_nd.mean(dim=0)]
    correct = torch.zeros(len(models), dtype=torch.int64)
    for first in range(0, len(labels), CHUNK):
        batch, truth = samples[first : first + CHUNK], labels[first : first + CHUNK]
        for i, x_d in enumerate(models):
            correct[i] += (model.forward(x_d, batch).argmax(dim=1) == truth).sum().cpu()
    shares = correct.double() / len(labels)
    nodes = shares[:-1]
    return Accuracy(float(nodes.mean()), float(shares[-1]), float(nodes.min()))


def consensus_distance(x_nd: Tensor) -> float:
    """(1/n) Σ_i |x_i - mean|², of whole models."""
    centred = x_nd.double() - x_nd.double().mean(dim=0)
    return float(centred.square().sum() / len(x_nd))
