"""A trained model out of a run's checkpoint, as torch's modules load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from basegraph.algorithms.catalog import algorithm as build_algorithm
from basegraph.algorithms.method import Method
from basegraph.data.dataset import OWN
from basegraph.engines.checkpoint import Checkpoint, CheckpointError, load
from basegraph.engines.vectors import from_names
from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import node as require_node
from basegraph.training.config import RunConfig
from basegraph.training.config_files import read_saved
from basegraph.training.folder import FACTS, RunFolder
from basegraph.training.status import FINISHED, read_status


def export(
    run: Path | str, *, node: int | None = None, algorithm: Method | None = None
) -> dict[str, Tensor]:
    """The model that a run has trained, as a `state_dict` of the module.

    Args:
        run: The run's folder; its last checkpoint is read.
        node: Whose model; None: the average of all nodes' models.
        algorithm: The method, where the run was trained with one that was passed from Python.

    Returns:
        The parameters by name, in main memory: `module.load_state_dict` takes them. Tied ones have
        all their names.

    Raises:
        InvalidArgument: There is no such run or node, or the method is missing.
        CheckpointError: The run has no checkpoint, or one that does not name its parameters.

    Example:
        >>> import tempfile
        >>> import basegraph as bg
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = bg.train(bg.RunConfig(nodes=2, epochs=1), f"{folder}/run")
        ...     {name: tuple(part.shape) for name, part in bg.export(f"{folder}/run").items()}
        {'1.weight': (64, 64), '1.bias': (64,), '3.weight': (64, 64), ...}

    """
    folder = RunFolder(Path(run), resume=True, argument="run")
    if not folder.checkpoint.is_file():
        raise CheckpointError(f"{folder.checkpoint}: {_why_missing(folder)}")
    saved = load(folder.checkpoint, FACTS)
    config = RunConfig(**read_saved(folder.config))
    models_nd = _models(saved, config, algorithm)
    if node is None:
        x_d = models_nd.double().mean(dim=0).to(models_nd.dtype)
    else:
        x_d = models_nd[require_node(node, len(models_nd), "node")]
    return _parameters(saved.facts, x_d, folder.checkpoint)


def _why_missing(folder: RunFolder) -> str:
    """Why a run has no checkpoint, and how the next one gets it."""
    if read_status(folder.path).state != FINISHED:
        return "no checkpoint yet"
    return (
        "the run has ended and kept no checkpoint; to have one, train again with its config.toml "
        "and checkpoint_last=true"
    )


def _models(saved: Checkpoint, config: RunConfig, algorithm: Method | None) -> Tensor:
    """(nodes, parameters): what the run evaluates, which is not x itself for every method."""
    x_nd = saved.tensors["x"]
    if algorithm is not None and not isinstance(algorithm, Method):
        raise InvalidArgument("algorithm", algorithm, "must be a Method")
    if algorithm is None:
        if config.algorithm.startswith(OWN):
            raise InvalidArgument(
                "algorithm", config.algorithm, "was passed from Python: pass it again to export()"
            )
        algorithm = build_algorithm(config.algorithm)  # where x is evaluated, no option changes
    _, state = from_names(saved.tensors, type(algorithm.init(x_nd[:, :1])))
    models_nd: Tensor = algorithm.gradient_point(x_nd, state)
    return models_nd


def _parameters(facts: dict[str, Any], x_d: Tensor, path: Path) -> dict[str, Tensor]:
    if "parameters" not in facts:
        raise CheckpointError(f"{path}: names no parameters (it is of an earlier version)")
    shapes = {
        name: tuple(map(int, str(shape).split())) for name, shape in facts["parameters"].items()
    }
    sizes = [torch.Size(shape).numel() for shape in shapes.values()]
    if sum(sizes) != len(x_d):
        raise CheckpointError(f"{path}: parameters={sum(sizes)}: must be {len(x_d)} numbers")
    parts = torch.split(x_d, sizes)
    named = {
        name: part.view(shape).clone()
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }
    return named | {second: named[str(first)] for second, first in facts.get("ties", {}).items()}
