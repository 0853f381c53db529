"""How good the nodes' models are, each by itself, and how far apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from basegraph.data.augment import gather
from basegraph.models.flat import FlatModel

CHUNK = 16384
"""Samples that all models together evaluate at a time."""
Outputs = Callable[[Tensor, Tensor], Tensor]
"""models (m, d), samples (b, ...) -> outputs (m, b, classes)"""


class Accuracy(NamedTuple):
    """Shares of correct answers on one set."""

    mean: float
    """Over nodes, of each node's own model: what the paper reports."""
    averaged: float
    """Of the average of all models."""
    worst: float
    """Of the worst node."""


def one_by_one(model: FlatModel) -> Outputs:
    """One model after another."""
    return lambda models, samples: torch.stack([model.forward(x_d, samples) for x_d in models])


def accuracy(
    outputs: Outputs, x_nd: Tensor, images: Tensor, labels: Tensor, mean: Tensor, std: Tensor
) -> Accuracy:
    """Evaluate every node and the averaged model on the same images (N, C, H, W)."""
    models = torch.cat([x_nd, x_nd.mean(dim=0, keepdim=True)])
    shares = correct(outputs, models, images, labels, mean, std).cpu().double() / len(labels)
    nodes = shares[:-1]
    return Accuracy(float(nodes.mean()), float(shares[-1]), float(nodes.min()))


@torch.no_grad()
def correct(
    outputs: Outputs, models: Tensor, images: Tensor, labels: Tensor, mean: Tensor, std: Tensor
) -> Tensor:
    """How many answers of each model are right.

    All chunks are equally large, so that they are one shape for a compiler: the last one begins
    earlier, and what was counted before is not counted again.
    """
    chunk = min(len(labels), max(1, CHUNK // len(models)))
    total = torch.zeros(len(models), dtype=torch.int64, device=models.device)
    for first in range(0, len(labels), max(chunk, 1)):
        begin = min(first, len(labels) - chunk)
        places = torch.arange(begin, begin + chunk, device=images.device)
        found = outputs(models, gather(images, places, mean, std)).argmax(dim=2)
        total += ((found == labels[places]) & (places >= first)).sum(dim=1)
    return total


def consensus_distance(x_nd: Tensor) -> float:
    """(1/n) Σ_i |x_i - mean|², of whole models."""
    centred = x_nd.double() - x_nd.double().mean(dim=0)
    return float(centred.square().sum() / len(x_nd))
