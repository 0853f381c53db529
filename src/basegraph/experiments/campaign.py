"""The skeleton of an experiment of many runs: rates tried on one seed, the best for the others.

A cell is what is compared: a way to communicate in a setting. Every cell is tried with all learning
rates on the first seed; the one that validates best is used for the other seeds. A seed decides
split, start and order of samples, for every cell alike: so cells are compared by their differences
within a seed. What is finished is kept without its checkpoint, and a folder of runs may be filled
in pieces.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from basegraph.errors import InvalidArgument, RuntimeFailure
from basegraph.experiments.grid import dataset_of
from basegraph.experiments.store import ResultFolder
from basegraph.experiments.sweep import SweepFolder, SweepWatcher, packs_of, run_sweep
from basegraph.storage.inputs import read_text
from basegraph.topologies.catalog import topology
from basegraph.training.config import MISSING, RunConfig
from basegraph.training.datasets import require_enough
from basegraph.training.metrics import Metrics
from basegraph.training.modules import model_form
from basegraph.training.problem import make_method

Cell = TypeVar("Cell", bound=Hashable)


class RunKey(Protocol):
    """Identifies a run of the campaign."""

    @property
    def cell(self) -> Any:
        """What is compared."""

    @property
    def lr(self) -> float:
        """The learning rate."""

    @property
    def seed(self) -> int:
        """The seed."""

    @property
    def name(self) -> str:
        """Of its folder."""


Key = TypeVar("Key", bound=RunKey)


class Campaign(Generic[Cell, Key]):
    """The runs that are asked for, and the folder in which they are made.

    Args:
        folder: Where results go; the runs are below it.
        settings: Fields that all runs share.
        cells: What is compared.
        rates: Learning rates; all are tried with the first seed.
        seeds: All are run with the best rate.
        resume: Whether the folder may hold runs.

    Raises:
        InvalidArgument: If a run could not be made, or the folder holds other ones.

    """

    def __init__(
        self,
        folder: ResultFolder,
        settings: dict[str, Any],
        cells: Iterable[Cell],
        rates: list[float],
        seeds: list[int],
        *,
        resume: bool,
    ) -> None:
        self.folder = folder
        self.settings = {**settings, "checkpoint_last": False}  # of n nodes: gigabytes
        self.rates, self.seeds = distinct_rates(rates), list(dict.fromkeys(seeds))
        self.cells = list(dict.fromkeys(cells))
        self._checked: set[Cell] = set()
        what = RunConfig(**self.settings).computes()
        each = dict.fromkeys(self.cells, self.rates)
        self.tried = self._configs(self.cells, each, self.seeds[:1])
        names = [key.name for key in self.tried]
        if len(set(names)) < len(names):  # of their folders
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidArgument(
                "alpha", twice, "appears twice: values are distinguished by six digits"
            )
        first = next(iter(self.tried.values()))
        model_form(first, dataset_of(first))  # all have the same model
        path = folder / "runs"
        self.sweep = SweepFolder(
            path,
            _definition(path, what),
            resume=resume,
            out=folder.path,
            writes=folder.writes,
        )

    @abstractmethod
    def key(self, cell: Cell, lr: float, seed: int) -> Key:
        """The name of a run."""

    @abstractmethod
    def fields(self, cell: Cell) -> dict[str, Any]:
        """What a cell's configuration has besides the shared settings."""

    @abstractmethod
    def penalty(self, row: Metrics) -> float:
        """What the best learning rate has the least of, on the validation set."""

    def _configs(
        self, cells: Iterable[Cell], rates: Mapping[Cell, Iterable[float]], seeds: Iterable[int]
    ) -> dict[Key, RunConfig]:
        """The configurations of these runs, all of which can be made."""
        configs = {}
        for cell in cells:
            for lr in rates[cell]:
                for seed in seeds:
                    config = RunConfig(
                        **{**self.settings, **self.fields(cell), "lr": lr, "seed": seed}
                    )
                    if cell not in self._checked:  # once for all rates and seeds
                        require_enough(config, dataset_of(config))
                        make_method(config, topology(config.topology, config.nodes))
                        self._checked.add(cell)
                    configs[self.key(cell, lr, seed)] = config
        return configs

    def finished(self, configs: Mapping[Key, RunConfig]) -> dict[Key, list[Metrics]]:
        """The metrics of those runs that have ended well."""
        left, failed = self.left(configs), self.sweep.failed()
        return {
            key: self.sweep.rows(key.name)
            for key in configs
            if key not in left and key.name not in failed
        }

    def left(self, configs: Mapping[Key, RunConfig]) -> dict[Key, RunConfig]:
        """Those runs that have neither ended nor failed."""
        names = self.sweep.left({key.name: config for key, config in configs.items()})
        return {key: config for key, config in configs.items() if key.name in names}

    def best_rates(self) -> dict[Cell, float]:
        """The rate of every cell that validates best, where all rates were tried."""
        open_ones = {key.cell for key in self.left(self.tried)}
        best = self.best_so_far(self.finished(self.tried))
        return {cell: rate for cell, rate in best.items() if cell not in open_ones}

    def best_so_far(self, finished: Mapping[Key, list[Metrics]]) -> dict[Cell, float]:
        """The best rate of the first seed among those that are finished; of equals, the largest."""
        scores: dict[Cell, list[tuple[float, float]]] = {}
        for key, rows in finished.items():
            if key.seed == self.seeds[0]:
                scores.setdefault(key.cell, []).append((self.penalty(rows[-1]), -key.lr))
        return {cell: -min(some)[1] for cell, some in scores.items()}

    def chosen(self, finished: Mapping[Key, list[Metrics]]) -> dict[Key, list[Metrics]]:
        """The runs with the best rate of their cell, among the rates that were tried by now."""
        best = self.best_so_far(finished)
        return {key: rows for key, rows in finished.items() if key.lr == best.get(key.cell)}

    def diverged_seeds(self, finished: Mapping[Key, list[Metrics]]) -> dict[Cell, list[int]]:
        """The seeds whose run with the best rate diverged, of cells that have any.

        Where there are some, the mean over the others is one over survivors.
        """
        failed, best = self.sweep.failed(), self.best_so_far(finished)
        seeds = {
            cell: [s for s in self.seeds if self.key(cell, rate, s).name in failed]
            for cell, rate in best.items()
        }
        return {cell: some for cell, some in seeds.items() if some}

    def hopeless(self) -> list[Cell]:
        """The cells that diverged with every learning rate."""
        failed = self.sweep.failed()
        survived = {key.cell for key in self.tried if key.name not in failed}
        return [cell for cell in self.cells if cell not in survived]

    def out_of_memory(self) -> dict[Key, str]:
        """The runs that are missing because they ran out of memory, and how."""
        notes = self.sweep.out_of_memory()
        return {key: notes[key.name] for key in self.left(self.known()) if key.name in notes}

    def outcome(self, key: Key, finished: bool) -> str:
        """How a run ended, for tables."""
        notes = {**self.sweep.out_of_memory(), **self.sweep.failed()}
        return "done" if finished else notes.get(key.name, "missing")

    def require_any(self) -> None:
        """Refuse to call it a result where every run diverged or failed otherwise.

        Raises:
            RuntimeFailure: If no run has ended well, and none is left that might.

        """
        cramped = self.out_of_memory()
        if not self.finished(self.tried) and self.left(self.tried).keys() <= cramped.keys():
            why = f" ({next(iter(cramped.values()))})" if cramped else ""
            raise RuntimeFailure(
                f"none of the {len(self.tried)} runs ended well{why}: {self.folder / 'runs.csv'}"
            )

    def again(self) -> dict[Key, RunConfig]:
        """The other seeds, with the best rates that are known by now."""
        best = self.best_rates()
        return self._configs(best, {cell: [rate] for cell, rate in best.items()}, self.seeds[1:])

    def made_ahead(self) -> dict[Key, RunConfig]:
        """Runs of the other seeds that were made while some rates of their cell are not tried yet.

        Only those with the best of the rates that are: another one may still become the best.
        """
        known = self.best_rates()
        so_far = self.best_so_far(self.finished(self.tried))
        best = {cell: rate for cell, rate in so_far.items() if cell not in known}
        rates = {cell: [rate] for cell, rate in best.items()}
        configs = self._configs(best, rates, self.seeds[1:])
        left = self.left(configs)
        return {key: config for key, config in configs.items() if key not in left}

    def known(self) -> dict[Key, RunConfig]:
        """All runs that can be named by now."""
        return self.tried | self.again() | self.made_ahead()

    def not_asked_for(self) -> str:
        """A line about runs in the folder that are no part of what is asked for; or none."""
        others = len(self.names_not_asked_for())
        if not others:
            return ""
        runs = "1 run is" if others == 1 else f"{others} runs are"
        return f"{runs} of other seeds, rates or cells, and not shown: {self.sweep.path}"

    def names_not_asked_for(self) -> list[str]:
        """The runs in the folder that are no part of what is asked for."""
        asked = {key.name for key in self.known()}
        return [name for name in self.sweep.names() if name not in asked]

    def count(self) -> int:
        """How many runs there will be in the end, if none diverges."""
        return len(self.tried) + len(self.cells) * len(self.seeds[1:])

    def count_left(self) -> int:
        """How many of them are still to be made."""
        known = self.known()
        return self.count() - (len(known) - len(self.left(known)))

    def runs_left(self) -> dict[Cell, int]:
        """How many runs of every cell are still to be made."""
        known = self.known()
        open_ones = self.left(known)
        each = len(self.rates) + len(self.seeds[1:])
        done = [key.cell for key in known if key not in open_ones]
        return {cell: each - done.count(cell) for cell in self.cells}

    def make(
        self,
        *,
        side_by_side: int = 1,
        minutes: float | None = None,
        progress: Callable[[list[str]], SweepWatcher] = lambda names: SweepWatcher(),
    ) -> None:
        """Make what is left of the runs, first those that the learning rates are chosen by.

        A run that runs out of memory is not tried again in this call.

        Args:
            side_by_side: How many at a time, at most, of those that differ in nothing but what may
                differ side by side.
            minutes: After which no further runs begin.
            progress: What to call on the way.

        """
        began = time.monotonic()
        cramped: set[str] = set()
        while minutes is None or time.monotonic() - began < 60 * minutes:
            named = self._left_but(cramped, self.tried) or self._left_but(cramped, self.again())
            if not named:
                return
            first = packs_of(named, self.sweep)[0]
            pack = dict(list(first.items())[:side_by_side])
            run_sweep(pack, self.sweep, most=side_by_side, progress=progress(list(pack)))
            cramped |= pack.keys() & self.sweep.out_of_memory().keys()

    def _left_but(
        self, names: Collection[str], configs: Mapping[Key, RunConfig]
    ) -> dict[str, RunConfig]:
        """Those runs that are left, but for some, by name."""
        left = self.left(configs).items()
        return {key.name: config for key, config in left if key.name not in names}


def _definition(path: Path, what: dict[str, Any]) -> str:
    """The settings as text; as an earlier version wrote them where they mean the same."""
    text = json.dumps(what, indent=2) + "\n"
    file = path / "sweep.toml"
    if file.is_file():
        begun = read_text(file)
        try:
            earlier = json.loads(begun)
        except ValueError:
            return text
        if isinstance(earlier, dict):
            then = {**{name: MISSING[name] for name in what.keys() & MISSING.keys()}, **earlier}
            for name, value in what.items():
                if then.get(name, value) != value and any(path.glob("*/config.toml")):
                    raise InvalidArgument(
                        name,
                        value,
                        f"the runs in {path} have {then[name]!r}: choose another folder",
                    )
            if then == what:
                return begun
    return text


def distinct_rates(rates: Iterable[float]) -> list[float]:
    """Learning rates, each once.

    Raises:
        InvalidArgument: If the names of files could not tell two of them apart.

    Example:
        >>> distinct_rates([0.1, 0.01, 0.1])
        [0.1, 0.01]

    """
    each = list(dict.fromkeys(rates))
    if len({f"{rate:g}" for rate in each}) < len(each):
        raise InvalidArgument("lr", each, "has two rates that are alike in six digits")
    return each


def seconds_together(rows: Iterable[Metrics]) -> float:
    """About what finished runs took together: those side by side share a clock, so equal times.

    Args:
        rows: The last evaluation of each run.

    """
    return sum({row["seconds"] for row in rows})
