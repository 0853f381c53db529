"""How good the nodes' models are, each by itself, and how far apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from basegraph.data.augment import gather
from basegraph.models.flat import FlatModel
from basegraph.topologies.core.round import IntArray

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

    @classmethod
    def of(cls, nodes: Tensor, averaged: Tensor, samples: int) -> Accuracy:
        """From numbers of correct answers."""
        shares = nodes.cpu().double() / samples
        return cls(float(shares.mean()), float(averaged) / samples, float(shares.min()))


@dataclass(frozen=True)
class Selection:
    """The nodes and samples that an evaluation uses, in ascending order."""

    nodes: IntArray
    sets: dict[str, IntArray]
    """Samples of the test set, and of the training set those that are held out."""

    def counts(self) -> dict[str, int]:
        """How many there are, by the names that metrics have for them."""
        used = {f"{name}_samples": len(samples) for name, samples in self.sets.items()}
        return {"evaluated_nodes": len(self.nodes), **used}


class Questions(NamedTuple):
    """What models are asked: some samples of a set, normalized when they are needed."""

    images: Tensor
    labels: Tensor
    places: Tensor
    """Numbers of the samples."""
    mean: Tensor
    std: Tensor


def one_by_one(model: FlatModel) -> Outputs:
    """One model after another."""
    return lambda models, samples: torch.stack([model.forward(x_d, samples) for x_d in models])


def chunk_size(models: int, samples: int) -> int:
    """How many samples so many models evaluate at a time."""
    return max(1, min(samples, CHUNK // models))


@torch.no_grad()
def correct(
    outputs: Outputs, models: Tensor, asked: Questions, *, together: int, chunk: int
) -> Tensor:
    """The number of correct answers of each model.

    All pieces are equally large, so that they are one shape for a compiler.

    Args:
        outputs: How models answer.
        models: (m, d): the models.
        asked: The samples and their labels.
        together: Models that answer at a time.
        chunk: Samples that they answer at a time.

    Returns:
        (m,): a count for each model.

    """
    right = torch.zeros(len(models), dtype=torch.int64, device=models.device)
    for some, _ in _pieces(len(models), together):
        right[some] = 0
        for part, counted in _pieces(len(asked.places), chunk):
            places = asked.places[part]
            samples = gather(asked.images, places, asked.mean, asked.std)
            good = outputs(models[some], samples).argmax(dim=2) == asked.labels[places]
            right[some] += good[:, counted:].sum(dim=1)
    return right


def _pieces(count: int, size: int) -> Iterator[tuple[slice, int]]:
    """Pieces of one size, the last of which begins earlier; and how many of each came before."""
    size = min(size, count)
    for first in range(0, count, max(size, 1)):
        begin = min(first, count - size)
        yield slice(begin, begin + size), first - begin


def consensus_distance(x_nd: Tensor) -> float:
    """(1/n) Σ_i |x_i - mean|², of whole models.

    Example:
        >>> consensus_distance(torch.tensor([[0.0], [2.0]]))
        1.0

    """
    centered = x_nd.double() - x_nd.double().mean(dim=0)
    return float(centered.square().sum() / len(x_nd))
