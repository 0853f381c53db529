"""How good the nodes' models are, each by itself, and how far apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from basegraph.data.augment import gather, taken
from basegraph.models.flat import FlatModel
from basegraph.topologies.core.round import IntArray

CHUNK = 16384
"""Samples, or tokens of samples, that all models together evaluate at a time."""
TOKENS_ON_GPU = 2**17
"""Tokens at a time on a GPU: fewer would not keep it busy while it reads all models."""
WIDENED = 2**22
"""Numbers of all nodes that are held in float64 at a time."""
Outputs = Callable[[Tensor, Tensor], Tensor]
"""models (m, d), samples (b, ...) -> outputs (m, b, classes)"""


class SampleLosses(NamedTuple):
    """In place of outputs where these would be too large: the losses of samples."""

    losses: Callable[[Tensor, Tensor, Tensor], Tensor]
    """models (m, d), samples (b, ...), targets (b, ...) -> (m, b)"""


class Score(NamedTuple):
    """How good models are on one set: shares of correct answers, or mean losses."""

    mean: float
    """Over nodes, of each node's own model: what the paper reports."""
    averaged: float
    """Of the average of all models."""
    worst: float
    """Of the worst node."""


class Measure(NamedTuple):
    """What is measured when models are evaluated."""

    name: str
    """`accuracy` or `loss`, as in the names of metrics."""
    totals: Callable[[Tensor, Tensor], Tensor]
    """outputs (m, b, ...), targets (b, ...) -> the sum over samples for each model, (m,); or, if it
    measures `each` sample, its value for each, (m, b)"""
    dtype: torch.dtype
    """Of the sums."""
    each: bool = False
    """Whether samples are measured one by one, so that groups of them can be told apart."""

    def score(self, nodes: Tensor, averaged: Tensor, samples: int) -> Score:
        """The score of some nodes' sums, and of that of the average of all models."""
        means = nodes.cpu().double() / samples
        worst = means.min() if self.name == "accuracy" else means.max()
        return Score(float(means.mean()), float(averaged) / samples, float(worst))

    def scores(
        self, name: str, nodes: Tensor, averaged: Tensor, samples: int | IntArray
    ) -> dict[str, Score]:
        """The score of a set, and those of its groups where there are any, by name.

        Args:
            name: The set's.
            nodes: (m,) sums of some nodes, or (m, g) by group.
            averaged: (), or (g,) by group: the sums of the averaged model.
            samples: How many samples they are of, or (g,) how many of each group.

        """
        if isinstance(samples, int):
            return {name: self.score(nodes, averaged, samples)}
        whole = self.score(nodes.sum(dim=1), averaged.sum(), int(samples.sum()))
        columns = zip(nodes.T, averaged, samples.tolist(), strict=True)
        groups = {group_name(name, g): self.score(*column) for g, column in enumerate(columns)}
        return {name: whole, **groups}


def group_name(name: str, group: int) -> str:
    """What the score of a group of a set is called.

    >>> group_name("test", 3)
    'test/3'
    """
    return f"{name}/{group}"


def _correct(outputs: Tensor, labels: Tensor) -> Tensor:
    return outputs.argmax(dim=2) == labels


ACCURACY = Measure("accuracy", _correct, torch.int64, each=True)
"""Shares of correct answers, for targets that are classes."""


def mean_loss(loss: Callable[[Tensor, Tensor], Tensor]) -> Measure:
    """The mean of a loss that is itself a mean over samples."""

    def totals(outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.stack([loss(each, targets).double() * len(targets) for each in outputs])

    return Measure("loss", totals, torch.float64)


def _token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    each = [cross_entropy(x_btv.transpose(1, 2), targets, reduction="none") for x_btv in logits]
    return torch.stack(each).double().mean(dim=2)


TOKEN_LOSS = Measure("loss", _token_losses, torch.float64, each=True)
"""The cross-entropy of the next token in nats, the mean over a window's tokens."""


@dataclass(frozen=True)
class Selection:
    """The nodes and samples that an evaluation uses, in ascending order."""

    nodes: IntArray
    sets: dict[str, IntArray]
    """Samples of the test set, and of the training set those that are held out."""
    groups: dict[str, IntArray] = field(default_factory=dict)
    """The groups, from 0, of the samples of a set, where they are to be told apart."""

    def group_sizes(self, name: str) -> int | IntArray:
        """How many samples of a set are used, by group if there are groups."""
        if name not in self.groups:
            return len(self.sets[name])
        return np.bincount(self.groups[name])

    def counts(self) -> dict[str, int]:
        """How many there are, by the names that metrics have for them."""
        used = {f"{name}_samples": len(samples) for name, samples in self.sets.items()}
        return {"evaluated_nodes": len(self.nodes), **used}


class Questions(NamedTuple):
    """What models are asked: some samples of a set, normalized when they are needed."""

    inputs: Tensor
    targets: Tensor
    places: Tensor
    """Numbers of the samples."""
    mean: Tensor | None
    std: Tensor | None
    groups: Tensor | None = None
    """(len(places),) the group of each sample, from 0."""
    group_count: int = 0

    def of_groups(self, selection: Selection, name: str) -> Questions:
        """The same, with the groups of the samples where there are any."""
        if name not in selection.groups:
            return self
        groups = torch.as_tensor(selection.groups[name]).to(self.places.device)
        return self._replace(groups=groups, group_count=int(groups.max()) + 1)

    def some(self, which: slice) -> Questions:
        """Some of the samples."""
        groups = None if self.groups is None else self.groups[which]
        return self._replace(places=self.places[which], groups=groups)

    @property
    def targets_per_sample(self) -> int:
        """How many targets a sample has: a window of tokens has one for every token."""
        return self.targets[0].numel()


def one_by_one(model: FlatModel) -> Outputs:
    """One model after another."""
    return lambda models, samples: torch.stack([model.forward(x_d, samples) for x_d in models])


def chunk_size(models: int, asked: Questions, samples: int | None = None) -> int:
    """How many samples so many models evaluate at a time.

    Args:
        models: How many there are.
        asked: What they are asked.
        samples: How many there are; default: as many as are asked.

    """
    count, targets = len(asked.places) if samples is None else samples, asked.targets_per_sample
    most = TOKENS_ON_GPU if targets > 1 and asked.inputs.is_cuda else CHUNK
    return max(1, min(count, most // (models * targets)))


@torch.no_grad()
def totals(
    measure: Measure,
    outputs: Outputs | SampleLosses,
    models: Tensor,
    asked: Questions,
    *,
    together: int,
    chunk: int,
) -> Tensor:
    """The sum of a measure over the samples, for each model.

    All pieces are equally large, so that they are one shape for a compiler.

    Args:
        measure: What is summed.
        outputs: How models answer.
        models: (m, d): the models.
        asked: The samples and what is expected.
        together: Models that answer at a time.
        chunk: Samples that they answer at a time.

    Returns:
        (m,): a sum for each model; or (m, g), one for each group too.

    """
    groups, columns = asked.groups, asked.group_count or 1
    sums = torch.zeros(len(models), columns, dtype=measure.dtype, device=models.device)
    for some, _ in _pieces(len(models), together):
        sums[some] = 0
        for part, counted in _pieces(len(asked.places), chunk):
            places = asked.places[part]
            samples = gather(asked.inputs, places, asked.mean, asked.std)
            targets = taken(asked.targets, places)
            if isinstance(outputs, SampleLosses):
                values = outputs.losses(models[some], samples, targets)[:, counted:]
            else:
                answers = outputs(models[some], samples)
                values = measure.totals(answers[:, counted:], targets[counted:])
            each = measure.each or isinstance(outputs, SampleLosses)
            if groups is not None:
                sums[some].index_add_(1, groups[part][counted:], values.to(measure.dtype))
            else:
                sums[some, 0] += values.sum(dim=1, dtype=measure.dtype) if each else values
    return sums[:, 0] if groups is None else sums


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
    total = torch.zeros((), dtype=torch.float64, device=x_nd.device)
    for part in torch.split(x_nd, max(1, WIDENED // len(x_nd)), dim=1):  # not all of it at once
        wide = part.double()
        total += (wide - wide.mean(dim=0)).square().sum()
    return float(total / len(x_nd))
