"""Language models on text of many domains: which way to communicate trains best, and at what cost.

A transformer on bytes, AdamW, and two splits of the same text: one domain for each node, and all
nodes alike. Every arm (all-reduce, gossip over a topology, local steps with an outer optimizer) is
tried with the same learning rates on the first seed; the one with the lowest validation loss is
used for the other seeds. A seed decides split, start and order of windows, for every arm alike: so
arms are compared by their differences within a seed.

What is finished is kept without its checkpoint, and a folder of runs may be filled in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from basegraph.errors import InvalidArgument, unknown
from basegraph.experiments.campaign import Campaign, seconds_together
from basegraph.experiments.grid import dataset_of
from basegraph.experiments.statistics import significant
from basegraph.experiments.store import ResultFolder
from basegraph.training.metrics import Metrics

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
    "base:k=1+moments": {"algorithm": f"adamw:{ADAMW},mix_moments=true", "topology": "base:k=1"},
    "diloco": {**_LOCAL, "outer": f"allreduce-sgd:{_OUTER}"},
    "gossip-diloco": {**_LOCAL, "outer": f"dsgdm:{_OUTER}", "topology": "base:k=1"},
}
"""Ways to communicate, with the fields that make them."""
SPLITS = ("domains", "iid")


class Key(NamedTuple):
    """Identifies a run of the campaign."""

    split: str
    arm: str
    lr: float
    seed: int

    @property
    def cell(self) -> tuple[str, str]:
        """Split and arm."""
        return self.split, self.arm

    @property
    def name(self) -> str:
        """Of its folder."""
        arm = self.arm.replace(":", "-").replace("=", "")
        return f"{self.split}_{arm}_lr={self.lr:g}_seed={self.seed}"


class Experiment(Campaign[tuple[str, str], Key]):
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
        arms = list(arms)
        self.pairs = list(dict.fromkeys((split, arm) for split in splits for arm in arms))
        for _, arm in self.pairs:
            if arm not in ARMS:
                raise unknown("arms", arm, ARMS)
        steps = settings["epochs"] * settings["epoch_steps"]
        if rare := [arm for arm in arms if ARMS[arm].get("local_steps", 1) > steps]:
            raise InvalidArgument(
                "arms",
                ",".join(dict.fromkeys(rare)),
                f"needs at least {LOCAL_STEPS} steps; a run has {steps}: give methods without it, "
                "or more epochs",
            )
        super().__init__(folder, settings, self.pairs, rates, seeds, resume=resume)

    def key(self, cell: tuple[str, str], lr: float, seed: int) -> Key:
        """The name of a run."""
        return Key(*cell, lr, seed)

    def fields(self, cell: tuple[str, str]) -> dict[str, Any]:
        """How an arm communicates, and the split."""
        split, arm = cell
        return {**ARMS[arm], "split": split}

    def penalty(self, row: Metrics) -> float:
        """The loss on the validation set."""
        return row["validation_loss"]

    def tokens_of_run(self) -> int:
        """Tokens that one run is trained on."""
        config = next(iter(self.tried.values()))
        context = dataset_of(config).shape[0]
        return config.epochs * config.epoch_steps * config.nodes * config.batch * context

    def measured_speed(self) -> float | None:
        """Tokens per second in the mean over finished runs, with evaluations; None: none yet."""
        rows = [rows[-1] for rows in self.finished(self.known()).values()]
        seconds = seconds_together(rows)
        return sum(row["tokens"] for row in rows) / seconds if seconds else None

    def plan(self) -> list[dict[str, Any]]:
        """How many runs of every arm there are, and how many of them are left."""
        rows = []
        for (split, arm), left in self.runs_left().items():
            tokens = self.tokens_of_run() / 1e6
            rows.append(
                {
                    "split": split,
                    "method": arm,
                    "runs": len(self.rates) + len(self.seeds[1:]),
                    "left": left,
                    "M tokens each": significant(tokens),
                    "M tokens left": significant(tokens * left),
                }
            )
        return rows
