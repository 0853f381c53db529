"""The model that a configuration names, and whether a model knows the tokens of a dataset."""

from __future__ import annotations

import torch
from torch import nn

from basegraph.data.dataset import Dataset
from basegraph.errors import InvalidArgument
from basegraph.models.flat import FlatModel
from basegraph.models.gpt import GPT
from basegraph.models.networks import build
from basegraph.training.config import RunConfig


def build_model(config: RunConfig, dataset: Dataset) -> nn.Module:
    """The model that the configuration names, for these data.

    A dataset of tokens that does not say its vocabulary has that of its largest token.
    """
    tokens = dataset.vocabulary
    if tokens is None and dataset.has_tokens:
        tokens = _largest_token(dataset) + 1
    return build(config.model, dataset.shape, dataset.classes, config.seed, tokens)


def model_form(config: RunConfig, dataset: Dataset) -> FlatModel:
    """The same without its numbers, for what is to be known before memory is taken.

    Args:
        config: Which names the model.
        dataset: The data that it is for.

    """
    with torch.device("meta"):
        return FlatModel(build_model(config, dataset))


def _largest_token(dataset: Dataset) -> int:
    splits = (dataset.train, dataset.test)
    return max(int(part.max()) for split in splits for part in (split.inputs, split.targets))


def refuse_unknown_tokens(dataset: Dataset, module: nn.Module) -> None:
    """Refuse tokens that the model does not have: on a GPU they would end the process."""
    if not isinstance(module, GPT) or not dataset.has_tokens:
        return
    splits = (dataset.train, dataset.test)
    lowest = min(int(part.min()) for split in splits for part in (split.inputs, split.targets))
    largest = _largest_token(dataset)
    if lowest < 0 or largest >= module.vocabulary:
        token = lowest if lowest < 0 else largest
        raise InvalidArgument("vocabulary", module.vocabulary, f"the dataset has a token {token}")


def require_vocabulary(module: nn.Module, dataset: Dataset, model: str) -> None:
    """Refuse a model that does not know all tokens of a dataset, before a GPU stumbles over one.

    Args:
        module: The model, in main memory.
        dataset: Whose tokens it will read.
        model: The model's name, for the refusal.

    Raises:
        InvalidArgument: The model fails on the last token of the vocabulary, not on the first.

    """
    if dataset.vocabulary is None or isinstance(module, GPT):
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
