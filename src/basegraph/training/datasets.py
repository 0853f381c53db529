"""The dataset that a configuration names: text is cut into windows of the model's context."""

from __future__ import annotations

from pathlib import Path

from basegraph.data._text import CONTEXT
from basegraph.data.catalog import load
from basegraph.data.dataset import Dataset
from basegraph.data.partition import hold_out, require_domains, require_samples
from basegraph.models.networks import context_of
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
    context = context_of(config.model) or CONTEXT
    return load(config.dataset, folder, context=context, tokenizer=config.tokenizer)


def require_enough(config: RunConfig, dataset: Dataset) -> None:
    """Refuse more nodes than the samples or domains of a dataset are enough for.

    Args:
        config: What is asked.
        dataset: Its data.

    Raises:
        InvalidArgument: There are too many nodes.

    """
    require_samples(config.nodes, len(dataset.train), config.validation)
    if config.split == "domains":
        _, rest = hold_out(len(dataset.train), config.validation, config.seed)
        require_domains(config.nodes, dataset.training_groups(), rest)
