"""Sweep files: a grid of runs.

A sweep file is TOML: fields of a run at the top, and one or several grids of lists.

    dataset = "mnist"
    model = "lenet"

    [grid]
    lr = [0.1, 0.01, 0.001]
    seed = [0, 1, 2]
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from basegraph.data.catalog import data_folder
from basegraph.data.dataset import Dataset
from basegraph.errors import InvalidArgument, unknown
from basegraph.storage.inputs import read_toml
from basegraph.topologies.catalog import topology
from basegraph.training.config import RunConfig
from basegraph.training.datasets import load_dataset, require_enough
from basegraph.training.problem import make_method

MAX_RUNS = 10_000
"""Of a sweep: each is a folder."""


def read_sweep(path: Path) -> dict[str, RunConfig]:
    """The runs of a sweep file by their folders' names; everything in it is checked.

    Args:
        path: A TOML file: fields of a run at the top, and one or several grids.

    Raises:
        InvalidArgument: If the file, a field or a combination of values is refused.

    """
    fixed = read_toml("sweep", path)
    grids = fixed.pop("grid", None)
    if isinstance(grids, dict):
        grids = [grids]
    if not grids or not isinstance(grids, list) or not all(isinstance(g, dict) for g in grids):
        raise InvalidArgument("grid", grids, f"{path} needs a table [grid], or several [[grid]]")
    return expand(fixed, grids, str(path))


def expand(fixed: dict[str, Any], grids: list[dict[str, Any]], where: str) -> dict[str, RunConfig]:
    """The runs of some grids over fixed fields, by their folders' names.

    Args:
        fixed: Fields that all runs share.
        grids: Lists of values by field; every combination of a grid is a run.
        where: What the grids come from, for errors.

    Raises:
        InvalidArgument: If a run could not be made, or a name occurs twice.

    """
    known = [field.name for field in fields(RunConfig)]
    varied: list[str] = []
    for name in itertools.chain(fixed, *grids):
        if name not in known:
            raise unknown(f"field of {where}", name, known)
    for grid in grids:
        if not grid:
            raise InvalidArgument("grid", grid, "must have a field with a list of values")
        for name, values in grid.items():
            if not isinstance(values, list) or not values:
                raise InvalidArgument(
                    f"grid.{name}", values, "must be a list of one or more values"
                )
            if name in fixed:
                raise InvalidArgument(f"grid.{name}", values, "is fixed at the top already")
            varied += [name] if name not in varied else []
    count = sum(math.prod(len(values) for values in grid.values()) for grid in grids)
    if count > MAX_RUNS:
        raise InvalidArgument("grid", count, f"{where} must have at most {MAX_RUNS} runs")
    runs: dict[str, RunConfig] = {}
    for grid in grids:
        for values in itertools.product(*grid.values()):
            chosen = dict(zip(grid, values, strict=True))
            config = RunConfig(**{**fixed, **chosen})
            require_enough(config, dataset_of(config))
            make_method(config, topology(config.topology, config.nodes))
            name = run_name({key: chosen[key] for key in varied if key in chosen})
            if name in runs:
                raise InvalidArgument("grid", name, "is there twice")
            runs[name] = config
    return runs


def run_name(chosen: dict[str, object]) -> str:
    """A folder's name that says what is particular about a run.

    >>> run_name({"topology": "base:k=1", "lr": 0.1})
    'topology=base-k1_lr=0.1'
    """
    parts = (f"{key}={re.sub(r'[^A-Za-z0-9.+-]', '', _dashed(v))}" for key, v in chosen.items())
    return "_".join(parts)


def _dashed(value: object) -> str:
    return re.sub(r"[:,/]+", "-", str(value))


def topology_of_list(spec: str, n: int) -> Any:
    """The topology of a spec among several; a refusal of its options names the spec.

    Args:
        spec: One of the `topologies`.
        n: Number of nodes.

    Raises:
        InvalidArgument: If there is no such topology for this n.

    Example:
        >>> topology_of_list("base", 25)
        <base:k=1, 25 nodes, 9 rounds, degree 1>
        >>> topology_of_list("base:k=0", 25)
        Traceback (most recent call last):
            ...
        basegraph.errors.InvalidArgument: topologies='base:k=0': k=0: must be an integer ≥ 1

    """
    try:
        return topology(spec, n)
    except InvalidArgument as error:
        if error.argument == "n":
            raise
        raise InvalidArgument("topologies", spec, str(error)) from None


def dataset_of(config: RunConfig) -> Dataset:
    """The dataset of a run; the last one is kept for the next run."""
    folder = data_folder(Path(config.data_dir) if config.data_dir else None)
    return _loaded(config.dataset, config.tokenizer, config.model, folder, folder.resolve())


@functools.lru_cache(1)
def _loaded(name: str, tokenizer: str, model: str, folder: Path, resolved: Path) -> Dataset:
    """A dataset of the data folder, whatever relative path leads there."""
    return load_dataset(
        RunConfig(dataset=name, tokenizer=tokenizer, model=model, data_dir=str(folder))
    )
