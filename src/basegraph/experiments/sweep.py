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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from basegraph.data.catalog import data_folder, load
from basegraph.data.dataset import Dataset
from basegraph.data.partition import require_samples
from basegraph.engines import checkpoint
from basegraph.engines.device import pick_device
from basegraph.errors import InvalidArgument, unknown
from basegraph.models.flat import FlatModel
from basegraph.models.networks import build
from basegraph.storage.files import replacing
from basegraph.storage.inputs import read_text, read_toml
from basegraph.topologies.catalog import topology
from basegraph.training.config import RunConfig, read_saved
from basegraph.training.folder import FACTS, RunFolder
from basegraph.training.loop import Diverged, Watcher
from basegraph.training.memory import fit
from basegraph.training.problem import make_method
from basegraph.training.train import Job, train_together

MOST = 64
"""Runs beside each other, whatever the memory: more are not quicker."""
MAX_RUNS = 10_000
"""Of a sweep: each is a folder."""


@dataclass(frozen=True)
class Planned:
    """A run of a sweep: its folder's name and its configuration."""

    name: str
    config: RunConfig


def read_sweep(path: Path) -> list[Planned]:
    """The runs of a sweep file; everything in it is checked."""
    found = read_toml("SWEEP", path)
    grids = found.pop("grid", None)
    if isinstance(grids, dict):
        grids = [grids]
    if not grids or not isinstance(grids, list) or not all(isinstance(g, dict) for g in grids):
        raise InvalidArgument("grid", grids, f"{path} needs a table [grid], or several [[grid]]")
    return expand(found, grids, str(path))


def expand(fixed: dict[str, Any], grids: list[dict[str, Any]], where: str) -> list[Planned]:
    """The runs of some grids over fixed fields, each refused if it could not be made."""
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
    return [Planned(name, config) for name, config in runs.items()]


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
                    "--out", str(path), "holds a sweep already; --resume continues it"
                )
            there = read_text(self.definition) if self.definition.exists() else ""
            if there != text:
                raise InvalidArgument("--out", str(path), "holds a sweep of another file")
            return
        try:
            path.mkdir(parents=True, exist_ok=True)
            with replacing(self.definition) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidArgument("--out", str(path), f"cannot be used: {reason}") from None

    def failed(self) -> dict[str, str]:
        """What went wrong with runs, by their names."""
        notes = sorted(self.failures.glob("*.txt"))
        return {note.stem: read_text(note).strip() for note in notes}

    def note_failure(self, name: str, reason: str) -> None:
        """Remember that a run need not be tried again; a file for each, so that any may write."""
        self.failures.mkdir(exist_ok=True)
        with replacing(self.failures / f"{name}.txt") as temporary:
            temporary.write_text(f"{reason}\n", encoding="utf-8")

    def rows(self, run: Planned) -> list[dict[str, Any]]:
        """The metrics of a run so far."""
        path = self.path / run.name
        return RunFolder(path, resume=True).rows() if (path / "config.toml").is_file() else []

    def left(self, runs: Iterable[Planned]) -> list[Planned]:
        """The runs that have neither finished nor failed."""
        failed = self.failed()
        return [run for run in runs if run.name not in failed and not self._finished(run)]

    def _finished(self, run: Planned) -> bool:
        """Whether the last evaluation was made, and kept; a checkpoint may have been removed."""
        self._require_same(run)
        rows = self.rows(run)
        whole = bool(rows) and rows[-1]["epoch"] == run.config.epochs
        return whole and self.step(run) in (0, rows[-1]["step"])

    def _require_same(self, run: Planned) -> None:
        """Refuse to go on with a run whose folder has other settings: results would be mixed."""
        saved = self.path / run.name / "config.toml"
        settings = read_saved(saved) if saved.is_file() else {}
        for name, value in run.config.computes().items():
            there = settings.get(name, value)
            if there != value:
                raise InvalidArgument(name, value, f"run {run.name} of {self.path} has {there!r}")

    def step(self, run: Planned) -> int:
        """Where a run stands: the step of its checkpoint, or 0."""
        kept = self.path / run.name / "checkpoint.safetensors"
        return int(checkpoint.header(kept, FACTS)[0]["step"]) if kept.is_file() else 0


@dataclass(frozen=True)
class Progress:
    """What a sweep tells whoever watches."""

    stepped: Callable[[str, int, int], None] = lambda name, step, total: None
    finished: Callable[[str, dict[str, Any]], None] = lambda name, row: None
    failed: Callable[[str, str], None] = lambda name, reason: None
    packed: Callable[[int], None] = lambda count: None
    """So many runs are about to be made side by side."""


def run_sweep(
    runs: list[Planned], folder: SweepFolder, *, most: int = MOST, progress: Progress | None = None
) -> None:
    """Make what is left of the runs, here, in packs."""
    progress = progress or Progress()
    packs = groups(folder.left(runs), folder)
    while packs:
        pack = packs.pop(0)
        first = pack[0].config
        dataset = _data(first)
        room = min(most, _room(first, dataset))
        if len(pack) > room:
            parts = -(-len(pack) // room)
            size = -(-len(pack) // parts)
            packs[:0] = [pack[i : i + size] for i in range(0, len(pack), size)]
            continue
        progress.packed(len(pack))
        try:
            _run_pack(pack, folder, progress, dataset)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(pack) == 1:
                folder.note_failure(pack[0].name, "out of memory")
                progress.failed(pack[0].name, "out of memory")
                continue
            half = len(pack) // 2
            packs[:0] = [g for part in (pack[:half], pack[half:]) for g in groups(part, folder)]


def groups(runs: Iterable[Planned], folder: SweepFolder) -> list[list[Planned]]:
    """Runs that can be made side by side: alike, and at the same step."""
    found: dict[tuple[object, ...], list[Planned]] = defaultdict(list)
    for run in runs:
        damping = make_method(run.config, topology(run.config.topology, run.config.nodes))[1]
        found[(*run.config.shared().items(), damping, folder.step(run))].append(run)
    return list(found.values())


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


def _run_pack(
    pack: list[Planned], folder: SweepFolder, progress: Progress, dataset: Dataset
) -> None:
    def watcher(run: Planned) -> Watcher:
        def stepped(step: int, total: int, loss: float) -> None:
            progress.stepped(run.name, step, total)

        def evaluated(row: dict[str, Any]) -> None:
            if row["epoch"] == run.config.epochs:
                progress.finished(run.name, row)

        def failed(error: Diverged) -> None:
            folder.note_failure(run.name, str(error))
            progress.failed(run.name, str(error))

        return Watcher(stepped=stepped, evaluated=evaluated, failed=failed)

    jobs = []
    for run in pack:
        path = folder.path / run.name
        there = (path / "config.toml").is_file()
        jobs.append(Job(run.config, path, there, watcher(run)))
    train_together(jobs, dataset=dataset)
