"""What is trained and measured where samples are windows of tokens: nats per token, bits per byte.

A model's loss on a token is -log p of that token, in nats. Bits per byte count the same for the
bytes of text that the tokens stand for, so that models with different tokenizers can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from torch import nn

from basegraph.data.dataset import Dataset, Text
from basegraph.engines.evaluation import (
    ACCURACY,
    TOKEN_LOSS,
    Measure,
    Score,
    Selection,
    group_name,
    mean_loss,
)
from basegraph.errors import InvalidArgument
from basegraph.models.gpt import next_token_loss
from basegraph.models.gradients import Loss
from basegraph.topologies.core.round import IntArray
from basegraph.training.metrics import columns


def default_loss(dataset: Dataset) -> Loss:
    """The cross-entropy of classes or tokens; targets of other kinds need a loss of their own."""
    if dataset.classes is not None:
        return nn.functional.cross_entropy
    if not dataset.has_tokens:
        raise InvalidArgument("loss", None, f"must be given: {dataset.name} has no classes")
    return next_token_loss


def measure_of(dataset: Dataset, loss: Loss | None) -> Measure:
    """What evaluations measure: accuracies of classes, nats per token, or a loss of one's own."""
    if dataset.classes is not None:
        return ACCURACY
    if loss is not None or not dataset.has_tokens:
        return mean_loss(loss or default_loss(dataset))
    return TOKEN_LOSS


class TokenScores(NamedTuple):
    """How scores on windows of tokens are reported."""

    context: int
    """Tokens of a window."""
    text: Text | None
    """The text that the tokens are of; None: unknown, or the loss is not that of tokens."""

    @staticmethod
    def of(dataset: Dataset, loss: Loss | None) -> TokenScores | None:
        """Those of a dataset, None where it is not of tokens."""
        if not dataset.has_tokens or dataset.classes is not None:
            return None
        return TokenScores(dataset.shape[0], dataset.text if loss is None else None)

    def test_groups(self) -> dict[str, IntArray]:
        """The domains of the test samples, which are told apart in the last evaluation."""
        return {} if self.text is None else {"test": self.text.test_domains}

    def bits_per_nat(self, selection: Selection) -> dict[str, float]:
        """What nats per token are in bits per byte, on the samples of each set; empty: not text."""
        if self.text is None:
            return {}
        sizes = {"test": self.text.test_bytes, "validation": self.text.train_bytes}
        return {
            name: bits_per_nat(self.context * len(samples), int(sizes[name][samples].sum()))
            for name, samples in selection.sets.items()
        }

    def domain_rows(
        self, scores: Mapping[str, Score], selection: Selection
    ) -> list[dict[str, str | int | float]]:
        """A row for every domain: how good models are on its held-out part, as far as selected."""
        assert self.text is not None
        rows: list[dict[str, str | int | float]] = []
        windows, domains = selection.sets["test"], selection.groups["test"]
        for place, name in enumerate(self.text.domains):
            mine = scores[group_name("test", place)]
            own = windows[domains == place]
            tokens = len(own) * self.context
            size = int(self.text.test_bytes[own].sum())
            rows.append(
                {
                    "domain": name,
                    "tokens": tokens,
                    "bytes": size,
                    **columns("loss", mine),
                    **columns("bits_per_byte", mine, bits_per_nat(tokens, size)),
                }
            )
        return rows


def bits_per_nat(tokens: int, text_bytes: int) -> float:
    """What one nat per token is in bits per byte.

    >>> round(bits_per_nat(tokens=10, text_bytes=10), 4)
    1.4427
    """
    return tokens / text_bytes / math.log(2)
