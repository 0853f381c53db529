"""The dataset that a configuration names: text is cut into windows of the model's context."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from basegraph.data._text import CONTEXT
from basegraph.data.catalog import load
from basegraph.data.dataset import Dataset
from basegraph.errors import InvalidArgument
from basegraph.training.config import RunConfig


def load_dataset(config: RunConfig) -> Dataset:
    """Load the dataset of a configuration.

    Args:
        config: What is asked.

    Raises:
        InvalidArgument: The name is not known.
        DataError: The files are missing, or not what they should be.

    """
    folder = Path(config.data_dir) if config.data_dir else None
    return load(
        config.dataset, folder, context=context_of(config.model), tokenizer=config.tokenizer
    )


def context_of(model: str) -> int:
    """The tokens that a model of this spec reads at once."""
    for option in model.partition(":")[2].split(","):
        name, _, value = option.partition("=")
        if name == "context" and value.isdigit():
            return int(value)
    return CONTEXT


def require_vocabulary(module: nn.Module, dataset: Dataset, model: str) -> None:
    """Refuse a model that does not know all tokens of a dataset, before a GPU stumbles over one.

    Args:
        module: The model, in main memory.
        dataset: Whose tokens it will read.
        model: The model's name, for the refusal.

    Raises:
        InvalidArgument: The model fails on the last token of the vocabulary, not on the first.

    """
    if dataset.vocabulary is None:
        return
    example = torch.as_tensor(dataset.example()).to(next(module.parameters()).device)
    with torch.no_grad():
        try:
            module(example)
        except (RuntimeError, TypeError, ValueError, IndexError):
            return  # it takes no such inputs at all: whoever trains it will say so
        try:
            module(example + dataset.vocabulary - 1)
        except IndexError:
            raise InvalidArgument(
                "model", model, f"does not take all {dataset.vocabulary} tokens of {dataset.name}"
            ) from None
