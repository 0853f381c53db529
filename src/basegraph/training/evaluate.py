"""How good the nodes' models are, each by itself, and how far apart."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from basegraph.data.augment import gather
from basegraph.models.gradients import Gradients

CHUNK = 1000
"""Samples that one model evaluates at a time."""
CHUNK_OF_ALL = 16384
"""Samples that all models together evaluate at a time."""


class Accuracy(NamedTuple):
    """Shares of correct answers on one set."""

    mean: float
    """Over nodes, of each node's own model: what the paper reports."""
    averaged: float
    """Of the average of all models."""
    worst: float
    """Of the worst node."""


@torch.no_grad()
def accuracy(
    gradients: Gradients, x_nd: Tensor, images: Tensor, labels: Tensor, mean: Tensor, std: Tensor
) -> Accuracy:
    """Evaluate every node and the averaged model on the same images (N, C, H, W)."""
    models = torch.cat([x_nd, x_nd.mean(dim=0, keepdim=True)])
    one_by_one = gradients.loops_on(x_nd.device)
    chunk = max(1, CHUNK if one_by_one else CHUNK_OF_ALL // len(models))
    correct = torch.zeros(len(models), dtype=torch.int64, device=x_nd.device)
    for first in range(0, len(labels), chunk):
        places = torch.arange(first, min(first + chunk, len(labels)), device=images.device)
        samples, truth = gather(images, places, mean, std), labels[places]
        if one_by_one:
            outputs = torch.stack([gradients.model.forward(x_d, samples) for x_d in models])
        else:
            outputs = gradients.outputs(models, samples.expand(len(models), *samples.shape))
        correct += (outputs.argmax(dim=2) == truth).sum(dim=1)
    shares = correct.cpu().double() / len(labels)
    nodes = shares[:-1]
    return Accuracy(float(nodes.mean()), float(shares[-1]), float(nodes.min()))


def consensus_distance(x_nd: Tensor) -> float:
    """(1/n) Σ_i |x_i - mean|², of whole models."""
    centred = x_nd.double() - x_nd.double().mean(dim=0)
    return float(centred.square().sum() / len(x_nd))
