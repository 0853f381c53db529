"""Sweeps: a grid of runs, as many side by side on a device as fit, each in its own folder.

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
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from basegraph.data.catalog import data_folder, load
from basegraph.data.dataset import Dataset
from basegraph.data.partition import require_samples
from basegraph.engines import checkpoint
from basegraph.engines.device import pick_device
from basegraph.errors import BasegraphError, InvalidArgument, unknown
from basegraph.models.flat import FlatModel
from basegraph.models.networks import build
from basegraph.storage.files import replacing
from basegraph.storage.inputs import read_text, read_toml
from basegraph.topologies.catalog import topology
from basegraph.training.config import RunConfig, read_saved
from basegraph.training.folder import FACTS, RunFolder
from basegraph.training.memory import fit
from basegraph.training.metrics import Metrics
from basegraph.training.problem import make_method
from basegraph.training.train import train_together
from basegraph.training.watcher import Watcher

MOST = 64
"""Runs beside each other, whatever the memory: more are not quicker."""
MAX_RUNS = 10_000
"""Of a sweep: each is a folder."""


def read_sweep(path: Path) -> dict[str, RunConfig]:
    """The runs of a sweep file by their folders' names; everything in it is checked.

    Args:
        path: A TOML file: fields of a run at the top, and one or several grids.

    Raises:
        InvalidArgument: If the file, a field or a combination of values is refused.

    """
    fixed = read_toml("SWEEP", path)
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
        InvalidArgument: If a run could not be made, or is there twice.

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
                raise InvalidArgument(f"grid.{name}", values, "must be a list of values")
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
            samples = len(_data(config).train)
            require_samples(config.nodes, samples, config.validation)
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


class SweepFolder:
    """Where a sweep's runs are, and which of them have failed."""

    def __init__(self, path: Path, text: str, *, resume: bool) -> None:
        self.path = path
        self.definition = path / "sweep.toml"
        self.failures = path / "failures"
        if any(path.glob("*/config.toml")):  # a run has begun: a folder without any is free
            if not resume:
                raise InvalidArgument(
                    "out", str(path), "holds a sweep already: resume it to continue"
                )
            begun = read_text(self.definition) if self.definition.exists() else ""
            if begun != text:
                raise InvalidArgument("out", str(path), "holds a sweep of another file")
            return
        try:
            path.mkdir(parents=True, exist_ok=True)
            with replacing(self.definition) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidArgument("out", str(path), f"cannot be used: {reason}") from None

    def failed(self) -> dict[str, str]:
        """What went wrong with runs, by their names."""
        notes = sorted(self.failures.glob("*.txt"))
        return {note.stem: read_text(note).strip() for note in notes}

    def note_failure(self, name: str, reason: str) -> None:
        """Remember that a run need not be tried again; a file for each, so that any may write."""
        self.failures.mkdir(exist_ok=True)
        with replacing(self.failures / f"{name}.txt") as temporary:
            temporary.write_text(f"{reason}\n", encoding="utf-8")

    def rows(self, name: str) -> list[Metrics]:
        """The metrics of a run so far."""
        path = self.path / name
        return RunFolder(path, resume=True).rows() if (path / "config.toml").is_file() else []

    def left(self, runs: Mapping[str, RunConfig]) -> dict[str, RunConfig]:
        """The runs that have neither finished nor failed.

        Raises:
            InvalidArgument: If the folder of a run has other settings.

        """
        failed = self.failed()
        return {
            name: config
            for name, config in runs.items()
            if name not in failed and not self._finished(name, config)
        }

    def _finished(self, name: str, config: RunConfig) -> bool:
        """Whether the last evaluation was made, and kept; a checkpoint may have been removed."""
        self._require_same(name, config)
        rows = self.rows(name)
        whole = bool(rows) and rows[-1]["epoch"] == config.epochs
        return whole and self.step(name) in (0, rows[-1]["step"])

    def _require_same(self, name: str, config: RunConfig) -> None:
        """Refuse to go on with a run whose folder has other settings: results would be mixed."""
        path = self.path / name / "config.toml"
        settings = read_saved(path) if path.is_file() else {}
        for field, value in config.computes().items():
            saved = settings.get(field, value)
            if saved != value:
                raise InvalidArgument(field, value, f"run {name} of {self.path} has {saved!r}")

    def step(self, name: str) -> int:
        """Where a run stands: the step of its checkpoint, or 0."""
        path = self.path / name / "checkpoint.safetensors"
        return int(checkpoint.header(path, FACTS)[0]["step"]) if path.is_file() else 0


@dataclass(frozen=True)
class Progress:
    """What a sweep calls."""

    stepped: Callable[[str, int, int], None] = lambda name, step, total: None
    finished: Callable[[str, Metrics], None] = lambda name, row: None
    failed: Callable[[str, str], None] = lambda name, reason: None
    packed: Callable[[int], None] = lambda count: None
    """So many runs are about to be made side by side."""


Pack = dict[str, RunConfig]
"""Runs that are made side by side, by name."""


def run_sweep(
    runs: Mapping[str, RunConfig],
    folder: SweepFolder,
    *,
    most: int = MOST,
    progress: Progress | None = None,
) -> None:
    """Make what is left of the runs in this process, in packs.

    Args:
        runs: Configurations by name.
        folder: Where each has a folder of its name.
        most: Runs side by side, at most.
        progress: What to call on the way.

    """
    progress = progress or Progress()
    packs = packs_of(folder.left(runs), folder)
    while packs:
        pack = packs.pop(0)
        name, first = next(iter(pack.items()))
        dataset = _data(first)
        room = min(most, _room(first, dataset))
        if len(pack) > room:
            parts = -(-len(pack) // room)
            items, size = list(pack.items()), -(-len(pack) // parts)
            packs[:0] = [dict(items[i : i + size]) for i in range(0, len(items), size)]
            continue
        progress.packed(len(pack))
        try:
            _run_pack(pack, folder, progress, dataset)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(pack) == 1:
                folder.note_failure(name, "out of memory")
                progress.failed(name, "out of memory")
                continue
            items, half = list(pack.items()), len(pack) // 2
            halves = dict(items[:half]), dict(items[half:])
            packs[:0] = [part for each in halves for part in packs_of(each, folder)]


def packs_of(runs: Mapping[str, RunConfig], folder: SweepFolder) -> list[Pack]:
    """Packs of runs that can be made side by side: alike, and at the same step."""
    packs: dict[tuple[object, ...], Pack] = defaultdict(dict)
    for name, config in runs.items():
        damping = make_method(config, topology(config.topology, config.nodes))[1]
        packs[(*config.shared().items(), damping, folder.step(name))][name] = config
    return list(packs.values())


def _data(config: RunConfig) -> Dataset:
    folder = data_folder(Path(config.data_dir) if config.data_dir else None)
    return _loaded(config.dataset, folder, folder.resolve())


@functools.lru_cache(1)
def _loaded(name: str, folder: Path, resolved: Path) -> Dataset:
    """A dataset of the data folder, whatever relative path leads there."""
    return load(name, folder)


def _room(config: RunConfig, dataset: Dataset) -> int:
    """How many such runs fit here."""
    module = build(config.model, dataset.shape, dataset.classes, config.seed)
    return fit(config, FlatModel(module), dataset, pick_device(config.device))


def _run_pack(pack: Pack, folder: SweepFolder, progress: Progress, dataset: Dataset) -> None:
    def watcher(name: str, config: RunConfig) -> Watcher:
        def stepped(step: int, total: int, loss: float) -> None:
            progress.stepped(name, step, total)

        def evaluated(row: Metrics) -> None:
            if row["epoch"] == config.epochs:
                progress.finished(name, row)

        def failed(error: BasegraphError) -> None:
            folder.note_failure(name, str(error))
            progress.failed(name, str(error))

        return Watcher(stepped=stepped, evaluated=evaluated, failed=failed)

    train_together(
        {folder.path / name: config for name, config in pack.items()},
        resume=True,
        watchers={folder.path / name: watcher(name, config) for name, config in pack.items()},
        dataset=dataset,
    )
