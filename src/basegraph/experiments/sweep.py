"""Sweeps: a grid of runs, as many side by side on a device as fit, each in its own folder.

Runs that differ in nothing but what may differ side by side are trained together, in packs. A sweep
that was stopped continues where it was. A run that failed is not tried again, but for one that ran
out of memory: there may be more the next time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from basegraph.data.dataset import Dataset
from basegraph.engines import checkpoint
from basegraph.engines.device import pick_device
from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.experiments.grid import dataset_of
from basegraph.experiments.store import HOLDS_RUNS
from basegraph.storage.files import replacing
from basegraph.storage.inputs import read_text
from basegraph.topologies.catalog import topology
from basegraph.training._train import train_together
from basegraph.training.config import RunConfig
from basegraph.training.folder import FACTS, RunFolder
from basegraph.training.memory import NotEnoughMemory, fit
from basegraph.training.metrics import Metrics
from basegraph.training.modules import model_form
from basegraph.training.problem import make_method
from basegraph.training.run import Diverged, require_same_settings
from basegraph.training.watcher import Watcher

MOST = 64
"""Runs beside each other, whatever the memory: more are not quicker."""
OUT_OF_MEMORY = "out of memory"
"""What a note begins with that is no result: the run is missing."""


class SweepFolder:
    """Where a sweep's runs are, and which of them have failed.

    Args:
        path: The folder with a folder for each run.
        text: What defines the sweep.
        resume: Whether the folder may hold runs.
        out: The folder as the caller calls it, where the runs are in a part of that.
        writes: Whether a folder without runs is made one for these.

    Raises:
        InvalidArgument: If it holds runs that are not resumed, or those of another sweep.

    """

    def __init__(
        self,
        path: Path,
        text: str,
        *,
        resume: bool,
        out: Path | None = None,
        writes: bool = True,
    ) -> None:
        self.path = path
        called = str(path if out is None else out)
        self.definition = path / "sweep.toml"
        self.failures = path / "failures"
        if any(path.glob("*/config.toml")):  # a run has begun: a folder without any is free
            if not resume:
                raise InvalidArgument("out", called, HOLDS_RUNS)
            begun = read_text(self.definition) if self.definition.exists() else ""
            if begun != text:
                raise InvalidArgument("out", called, "holds a sweep of another file")
            return
        if not writes:
            return
        try:
            path.mkdir(parents=True, exist_ok=True)
            with replacing(self.definition) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidArgument("out", called, f"cannot be used: {reason}") from None

    def names(self) -> list[str]:
        """The names of all runs that are here."""
        return sorted(config.parent.name for config in self.path.glob("*/config.toml"))

    def failed(self) -> dict[str, str]:
        """What went wrong with runs that are not tried again, by their names."""
        notes = self._notes().items()
        return {name: note for name, note in notes if not note.startswith(OUT_OF_MEMORY)}

    def out_of_memory(self) -> dict[str, str]:
        """How the runs ran out of memory that did so when they were last tried, by their names."""
        notes = self._notes().items()
        return {name: note for name, note in notes if note.startswith(OUT_OF_MEMORY)}

    def _notes(self) -> dict[str, str]:
        notes = sorted(self.failures.glob("*.txt"))
        return {note.stem: read_text(note).strip() for note in notes}

    def forget_failure(self, name: str) -> None:
        """Remove the note about a run that is tried again."""
        (self.failures / f"{name}.txt").unlink(missing_ok=True)

    def note_failure(self, name: str, reason: str) -> None:
        """Remember how a run failed; a file for each, so that any may write."""
        self.failures.mkdir(exist_ok=True)
        with replacing(self.failures / f"{name}.txt") as temporary:
            temporary.write_text(f"{reason}\n", encoding="utf-8")

    def rows(self, name: str) -> list[Metrics]:
        """The metrics of a run so far."""
        path = self.path / name
        return RunFolder(path, resume=True).rows() if (path / "config.toml").is_file() else []

    def left(self, runs: Mapping[str, RunConfig]) -> dict[str, RunConfig]:
        """The runs that have neither finished nor failed; those out of memory are left, too.

        Raises:
            InvalidArgument: If the folder of a run has other settings, or some were made with other
                data than others.

        """
        failed = self.failed()
        self._require_one_dataset(runs)
        return {
            name: config
            for name, config in runs.items()
            if name not in failed and not self._finished(name, config)
        }

    def _finished(self, name: str, config: RunConfig) -> bool:
        """Whether the last evaluation was made, and kept; a checkpoint may have been removed."""
        if (self.path / name / "config.toml").is_file():
            settings = self._run(name).settings()
            require_same_settings(config, settings, f"run {name} of {self.path}")
        rows = self.rows(name)
        complete = bool(rows) and rows[-1]["epoch"] == config.epochs
        return complete and self.step(name) in (0, rows[-1]["step"])

    def _require_one_dataset(self, runs: Mapping[str, RunConfig]) -> None:
        """Refuse runs whose data had changed in between: their results would be compared."""
        first: dict[tuple[str, ...], tuple[str, str]] = {}
        for name, config in runs.items():
            if checksum := self._run(name).data_checksum():
                other, known = first.setdefault(_data_of(vars(config)), (name, checksum))
                if checksum != known:
                    path = str(self.path)
                    raise InvalidArgument("out", path, f"{other} and {name} are of different data")

    def require_same_data(self, config: RunConfig, dataset: Dataset) -> None:
        """Refuse to add runs on data that have changed since the others were made.

        Args:
            config: Of a run that is to be made.
            dataset: Its data.

        Raises:
            InvalidArgument: A run of the same dataset was made with other data.

        """
        for name in self.names():
            run = self._run(name)
            if _data_of(run.settings()) == _data_of(vars(config)):
                run.require_same_data(dataset)

    def _run(self, name: str) -> RunFolder:
        return RunFolder(self.path / name, resume=True, writes=False)

    def remove_checkpoint(self, name: str) -> None:
        """Remove the checkpoint of a run that will not be continued."""
        (self.path / name / "checkpoint.safetensors").unlink(missing_ok=True)

    def step(self, name: str) -> int:
        """Where a run stands: the step of its checkpoint, or 0."""
        path = self.path / name / "checkpoint.safetensors"
        return int(checkpoint.header(path, FACTS)[0]["step"]) if path.is_file() else 0


@dataclass(frozen=True)
class SweepWatcher:
    """Functions that a sweep calls as its runs go on."""

    stepped: Callable[[str, int, int], None] = lambda name, step, total: None
    finished: Callable[[str, Metrics], None] = lambda name, row: None
    failed: Callable[[str, str], None] = lambda name, reason: None
    packed: Callable[[int], None] = lambda count: None
    """So many runs are about to be made side by side."""


def _data_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that say which data a run has; those of a text are cut to the model's context."""
    return config["dataset"], config["tokenizer"], config["model"]


Pack = dict[str, RunConfig]
"""Runs that are made side by side, by name."""


def run_sweep(
    runs: Mapping[str, RunConfig],
    folder: SweepFolder,
    *,
    most: int = MOST,
    progress: SweepWatcher | None = None,
) -> None:
    """Make what is left of the runs in this process, in packs.

    Args:
        runs: Configurations by name.
        folder: Where each has a folder of its name.
        most: Runs side by side, at most.
        progress: What to call on the way.

    """
    progress = progress or SweepWatcher()
    packs = packs_of(folder.left(runs), folder)
    while packs:
        pack = packs.pop(0)
        name, first = next(iter(pack.items()))
        dataset = dataset_of(first)
        try:
            room = min(most, _room(first, dataset))
        except NotEnoughMemory as error:
            for one in pack:
                _note_out_of_memory(one, folder, progress, f"{OUT_OF_MEMORY}: {error}")
            continue
        if len(pack) > room:
            parts = -(-len(pack) // room)
            items, size = list(pack.items()), -(-len(pack) // parts)
            packs[:0] = [dict(items[i : i + size]) for i in range(0, len(items), size)]
            continue
        folder.require_same_data(first, dataset)
        progress.packed(len(pack))
        try:
            _run_pack(pack, folder, progress, dataset)
        except (torch.OutOfMemoryError, NotEnoughMemory):
            torch.cuda.empty_cache()
            if len(pack) == 1:
                _note_out_of_memory(name, folder, progress, OUT_OF_MEMORY)
                continue
            items, half = list(pack.items()), len(pack) // 2
            halves = dict(items[:half]), dict(items[half:])
            packs[:0] = [part for each in halves for part in packs_of(each, folder)]


def _note_out_of_memory(
    name: str, folder: SweepFolder, progress: SweepWatcher, reason: str
) -> None:
    folder.note_failure(name, reason)
    progress.failed(name, reason)


def packs_of(runs: Mapping[str, RunConfig], folder: SweepFolder) -> list[Pack]:
    """Packs of runs that can be made side by side: alike, and at the same step."""
    packs: dict[tuple[object, ...], Pack] = defaultdict(dict)
    for name, config in runs.items():
        damping = make_method(config, topology(config.topology, config.nodes))[1]
        packs[(*config.shared().items(), damping, folder.step(name))][name] = config
    return list(packs.values())


def _room(config: RunConfig, dataset: Dataset) -> int:
    """How many such runs fit here."""
    return fit(config, model_form(config, dataset), dataset, pick_device(config.device))


def _run_pack(pack: Pack, folder: SweepFolder, progress: SweepWatcher, dataset: Dataset) -> None:
    def watcher(name: str, config: RunConfig) -> Watcher:
        def stepped(step: int, total: int, loss: float) -> None:
            progress.stepped(name, step, total)

        def evaluated(row: Metrics) -> None:
            if row["epoch"] == config.epochs:
                progress.finished(name, row)

        def failed(error: BasegraphError) -> None:
            reason = str(error)
            if isinstance(error, Diverged) and not config.checkpoint_last:
                folder.remove_checkpoint(name)
                reason = error.what
            folder.note_failure(name, reason)
            progress.failed(name, reason)

        return Watcher(stepped=stepped, evaluated=evaluated, failed=failed)

    for name in pack.keys() & folder.out_of_memory().keys():
        folder.forget_failure(name)
    train_together(
        {folder.path / name: config for name, config in pack.items()},
        resume=True,
        watchers={folder.path / name: watcher(name, config) for name, config in pack.items()},
        dataset=dataset,
    )
