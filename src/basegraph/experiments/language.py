"""Language models on text of many domains: which way to communicate trains best, and at what cost.

A transformer on bytes, AdamW, and two splits of the same text: one domain for each node, and all
nodes alike. Every arm (all-reduce, gossip over a topology, local steps with an outer optimizer) is
tried with the same learning rates on the first seed; the one with the lowest validation loss is
used for the other seeds. A seed decides split, start and order of windows, for every arm alike: so
arms are compared by their differences within a seed.

What is finished is kept without its checkpoint, and a folder of runs may be filled in pieces.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from basegraph.errors import unknown
from basegraph.experiments.grid import dataset_of
from basegraph.experiments.store import ResultFolder
from basegraph.experiments.sweep import SweepFolder, SweepWatcher, packs_of, run_sweep
from basegraph.topologies.catalog import topology
from basegraph.training.config import RunConfig
from basegraph.training.datasets import require_enough
from basegraph.training.metrics import Metrics
from basegraph.training.problem import make_method

ADAMW = "beta2=0.95"
LOCAL_STEPS = 32
"""H of the arms that communicate now and then."""
OUTER_LR = 0.7
_OUTER = "momentum=0.9,nesterov=true"
_LOCAL = {"algorithm": f"adamw:{ADAMW}", "local_steps": LOCAL_STEPS, "outer_lr": OUTER_LR}
TOPOLOGIES = (
    "base:k=1",
    "base:k=2",
    "short:k=1",
    "steady",
    "one-peer-exponential",
    "exponential",
    "ring",
)
ARMS: dict[str, dict[str, Any]] = {
    "all-reduce": {"algorithm": f"allreduce-adamw:{ADAMW}"},
    **{t: {"algorithm": f"adamw:{ADAMW}", "topology": t} for t in TOPOLOGIES},
    "diloco": {**_LOCAL, "outer": f"allreduce-sgd:{_OUTER}"},
    "gossip-diloco": {**_LOCAL, "outer": f"dsgdm:{_OUTER}", "topology": "base:k=1"},
}
"""Ways to communicate, with the fields that make them."""
SPLITS = ("domains", "iid")


class Key(NamedTuple):
    """Which of the runs one is."""

    split: str
    arm: str
    lr: float
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        arm = self.arm.replace(":", "-").replace("=", "")
        return f"{self.split}_{arm}_lr={self.lr:g}_seed={self.seed}"


class Experiment:
    """The runs that are asked for, and the folder in which they are made.

    Args:
        folder: Where results go; the runs are below it.
        settings: Fields that all runs share.
        arms: Names of `ARMS`.
        splits: Of `SPLITS`.
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
        arms: Iterable[str],
        splits: Iterable[str],
        rates: list[float],
        seeds: list[int],
        *,
        resume: bool,
    ) -> None:
        self.folder, self.settings = folder, settings
        self.rates, self.seeds = rates, seeds
        self.pairs = [(split, arm) for split in splits for arm in arms]
        for _, arm in self.pairs:
            if arm not in ARMS:
                raise unknown("methods", arm, ARMS)
        what = RunConfig(**settings).computes()
        self.tried = self._configs(self.pairs, dict.fromkeys(self.pairs, rates), seeds[:1])
        text = json.dumps(what, indent=2) + "\n"
        self.sweep = SweepFolder(folder / "runs", text, resume=resume)

    def _configs(
        self,
        pairs: Iterable[tuple[str, str]],
        rates: Mapping[tuple[str, str], Iterable[float]],
        seeds: Iterable[int],
    ) -> dict[Key, RunConfig]:
        """The configurations of these runs, all of which can be made."""
        configs = {}
        for split, arm in pairs:
            for lr in rates[split, arm]:
                for seed in seeds:
                    fields = {**self.settings, **ARMS[arm], "split": split}
                    config = RunConfig(**fields, lr=lr, seed=seed)
                    require_enough(config, dataset_of(config))
                    make_method(config, topology(config.topology, config.nodes))
                    configs[Key(split, arm, lr, seed)] = config
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

    def best_rates(self) -> dict[tuple[str, str], float]:
        """The rate of every arm with the lowest validation loss, where all rates were tried."""
        losses: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for key, rows in self.finished(self.tried).items():
            scored = rows[-1]["validation_loss"], key.lr
            losses.setdefault((key.split, key.arm), []).append(scored)
        open_ones = {(key.split, key.arm) for key in self.left(self.tried)}
        return {pair: min(some)[1] for pair, some in losses.items() if pair not in open_ones}

    def again(self) -> dict[Key, RunConfig]:
        """The other seeds, with the best rates that are known by now."""
        best = self.best_rates()
        rates = {pair: [rate] for pair, rate in best.items()}
        return self._configs(best, rates, self.seeds[1:])

    def known(self) -> dict[Key, RunConfig]:
        """All runs that can be named by now."""
        return self.tried | self.again()

    def count(self) -> int:
        """How many runs there will be in the end, if none diverges."""
        return len(self.tried) + len(self.pairs) * len(self.seeds[1:])

    def count_left(self) -> int:
        """How many of them are still to be made."""
        known = self.known()
        return self.count() - (len(known) - len(self.left(known)))

    def make(
        self,
        *,
        side_by_side: int = 1,
        minutes: float | None = None,
        progress: Callable[[list[str]], SweepWatcher] = lambda names: SweepWatcher(),
    ) -> None:
        """Make what is left of the runs, first those that the learning rates are chosen by.

        Args:
            side_by_side: How many at a time, at most, of those that differ in topology, learning
                rate and seed only.
            minutes: After which no further runs begin.
            progress: What to call on the way.

        """
        began = time.monotonic()
        while minutes is None or time.monotonic() - began < 60 * minutes:
            left = self.left(self.tried) or self.left(self.again())
            if not left:
                return
            named = {key.name: config for key, config in left.items()}
            first = packs_of(named, self.sweep)[0]
            pack = dict(list(first.items())[:side_by_side])
            run_sweep(pack, self.sweep, most=side_by_side, progress=progress(list(pack)))
            for name, config in pack.items():  # of 25 nodes with two moments each: gigabytes
                if name not in self.sweep.left({name: config}):
                    (self.sweep.path / name / "checkpoint.safetensors").unlink(missing_ok=True)

    def tokens_of_run(self) -> int:
        """Tokens that one run is trained on."""
        config = next(iter(self.tried.values()))
        context = dataset_of(config).shape[0]
        return config.epochs * config.epoch_steps * config.nodes * config.batch * context

    def measured_speed(self) -> float | None:
        """Tokens per second of the quickest finished run, with its evaluations; None: none yet.

        Each run that was made side by side with others counts with the time of all of them.
        """
        rows = [rows[-1] for rows in self.finished(self.known()).values()]
        speeds = [row["tokens"] / row["seconds"] for row in rows if row["seconds"]]
        return max(speeds, default=None)

    def plan(self) -> list[dict[str, Any]]:
        """How many runs of every arm there are, and how many of them are left."""
        known = self.known()
        open_ones = self.left(known)
        rows = []
        for split, arm in self.pairs:
            count = len(self.rates) + len(self.seeds[1:])
            done = [k for k in known if (k.split, k.arm) == (split, arm) and k not in open_ones]
            tokens = self.tokens_of_run() / 1e6
            rows.append(
                {
                    "split": split,
                    "method": arm,
                    "runs": count,
                    "left": count - len(done),
                    "M tokens each": round(tokens, 1),
                    "M tokens left": round(tokens * (count - len(done)), 1),
                }
            )
        return rows
