"""The runs of a training figure: which topology trains best.

A figure is a set of cells (α, n, method, topology), all with one dataset and one model. The
learning rate of a cell is the one of {0.1, 0.01, 0.001} that validates best on the first seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from basegraph.algorithms._stability import Unstable
from basegraph.data.partition import hold_out
from basegraph.errors import InvalidArgument
from basegraph.experiments.campaign import Campaign, seconds_together
from basegraph.experiments.figures import Figure
from basegraph.experiments.grid import dataset_of, run_name, topology_of_list
from basegraph.experiments.store import ResultFolder
from basegraph.topologies.catalog import topology
from basegraph.topologies.core.sequence import Sequence
from basegraph.training.config import RunConfig
from basegraph.training.metrics import Metrics
from basegraph.training.modules import model_form
from basegraph.training.problem import make_method
from basegraph.training.traffic import BytesSent

RATES = (0.1, 0.01, 0.001)
ALL_REDUCE = "all-reduce"
COUNTED_ROUNDS = 500
"""Rounds of a random topology whose bytes are counted for an estimate."""
MS_PER_STEP = {
    ("lenet", "tf32"): 0.210,
    ("lenet", "bf16"): 0.195,
    ("vgg11", "tf32"): 9.02,
    ("vgg11", "bf16"): 5.18,
    ("resnet18", "bf16"): 17.6,
}
"""Of 25 nodes with batches of 32 on one H200, no evaluations: docs/explanation/performance.md.

Measured with our models (2 groups); those of the published settings are taken to be as quick.
"""


class Cell(NamedTuple):
    """What is compared: a topology in a panel (α, n, method)."""

    alpha: float
    nodes: int
    method: str
    topology: str

    def named(self) -> dict[str, Any]:
        """Its parts, for tables."""
        return {"α": self.alpha, "n": self.nodes, "method": self.method, "topology": self.topology}


class Key(NamedTuple):
    """Identifies a run of the figure."""

    cell: Cell
    lr: float
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        alpha, n, method, spec = self.cell
        return run_name(
            {"alpha": f"{alpha:g}", "n": n, "method": method, "topology": spec,
             "lr": f"{self.lr:g}", "seed": self.seed}
        )  # fmt: skip


class Cells(NamedTuple):
    """The cells of a figure that are trained."""

    trained: list[Cell]
    same: dict[Cell, Cell]
    """Cells that are not, because another has the same rounds."""
    unstable: list[Cell]
    """Cells that are not, because the method is unstable there: D² with `damping=auto` whatever its
    damping."""


def cells_of(figure: Figure) -> Cells:
    """All cells of a figure, each once."""
    cells = Cells([], {}, [])
    for alpha in figure.alphas:
        for n in figure.nodes:
            cells.trained.append(Cell(alpha, n, "allreduce-sgd", ALL_REDUCE))
            for method in figure.methods:
                rounds: dict[str, object] = {}
                for spec in figure.topologies:
                    t = topology_of_list(spec, n)
                    period = list(t) if isinstance(t, Sequence) else spec
                    same = next((s for s, other in rounds.items() if other == period), None)
                    cell = Cell(alpha, n, method, spec)
                    if same is not None:
                        cells.same[cell] = cell._replace(topology=same)
                        continue
                    rounds[spec] = period
                    try:
                        make_method(RunConfig(algorithm=method, topology=spec, nodes=n), t)
                    except Unstable:
                        cells.unstable.append(cell)
                    else:
                        cells.trained.append(cell)
    return cells


class Experiment(Campaign[Cell, Key]):
    """The runs of a figure.

    Args:
        folder: Where results go; the runs are below it.
        figure: What is compared.
        settings: Fields that all runs share.
        rates: Learning rates.
        seeds: The first chooses the rate.
        resume: Whether the folder may hold runs.

    """

    def __init__(
        self,
        folder: ResultFolder,
        figure: Figure,
        settings: dict[str, Any],
        rates: Iterable[float] = RATES,
        seeds: Iterable[int] = (0, 1, 2),
        *,
        resume: bool,
    ) -> None:
        self.figure = figure
        self.every = cells_of(figure)
        rates = list(rates)
        for name in ("lr_min", "warmup_start"):
            lowest = settings.get(name, 0.0)
            if below := [rate for rate in rates if 0 < rate < lowest]:
                accepted = f"must be at least {lowest:g}, the {name} of the settings"
                raise InvalidArgument("lr", below[0], accepted)
        super().__init__(folder, settings, self.every.trained, rates, list(seeds), resume=resume)

    def key(self, cell: Cell, lr: float, seed: int) -> Key:
        """The name of a run."""
        return Key(cell, lr, seed)

    def fields(self, cell: Cell) -> dict[str, Any]:
        """The panel, and how nodes communicate."""
        fields = {"alpha": cell.alpha, "nodes": cell.nodes, "algorithm": cell.method}
        if cell.topology == ALL_REDUCE:
            return fields
        # `cells_of` has left out what is unstable: that need not be found out for every run.
        return {**fields, "topology": cell.topology, "allow_unstable": True}

    def penalty(self, row: Metrics) -> float:
        """The share of errors on the validation set."""
        return 1 - row["validation_accuracy"]

    def steps(self, config: RunConfig) -> int:
        """Steps of a run."""
        _, rest = hold_out(len(dataset_of(config).train), config.validation, config.seed)
        return config.epochs * -(-(len(rest) // config.nodes) // config.batch)

    def plan(self, ms_per_step: float | None = None) -> list[dict[str, Any]]:
        """Runs, bytes and minutes of every cell; minutes are None where no time is known.

        Args:
            ms_per_step: Of 25 nodes; if left out, as the finished runs took, or as was measured on
                an H200.

        """
        first = {key.cell: config for key, config in self.tried.items()}
        config = next(iter(first.values()))
        size = 4 * model_form(config, dataset_of(config)).size
        known = MS_PER_STEP.get((config.model.partition(":")[0], config.precision))
        per_node = ms_per_step or self.measured_ms_per_step() or known
        rows = []
        for cell, left in self.runs_left().items():
            config = first[cell]
            steps = self.steps(config)
            minutes = None if per_node is None else per_node * cell.nodes / 25 * steps / 60_000
            rows.append(
                {
                    **cell.named(),
                    "runs": len(self.rates) + len(self.seeds[1:]),
                    "left": left,
                    "GB per node, each": float(f"{_bytes(config, steps, size) / 1e9:.3g}"),
                    "minutes left": None if minutes is None else round(left * minutes, 2),
                }
            )
        return rows

    def left_out(self) -> list[str]:
        """Lines about the cells that are not trained, and why."""
        same = [f"{_said(c)}: is {other.topology}" for c, other in self.every.same.items()]
        unstable = [f"{_said(c)}: unstable{_of_any(c.method)}" for c in self.every.unstable]
        return list(dict.fromkeys([*same, *unstable]))

    def measured_ms_per_step(self) -> float | None:
        """Of 25 nodes, in the mean over finished runs, with evaluations; None: none yet."""
        ends = {key: rows[-1] for key, rows in self.finished(self.known()).items()}
        steps = sum(row["step"] * key.cell.nodes / 25 for key, row in ends.items())
        seconds = seconds_together(ends.values())
        return 1000 * seconds / steps if seconds else None


def _of_any(method: str) -> str:
    return " for every damping" if RunConfig(algorithm=method).damping == "auto" else ""


def _said(cell: Cell) -> str:
    return f"{cell.method}, n={cell.nodes}, {cell.topology}"


def _bytes(config: RunConfig, steps: int, size: int) -> float:
    """What a node sends in a run; by its first rounds where these are random."""
    t = topology(config.topology, config.nodes)
    sent = BytesSent(t, make_method(config, t)[0], 1, size)
    counted = steps if t.period is not None else min(steps, COUNTED_ROUNDS)
    return sent.by(counted) * steps / counted
