"""What an engine offers to runs, and what it needs to know of them.

An `Engine` makes the steps of one run, or of several runs at once. What belongs to a single run,
such as its models, its accuracies and its checkpoint, goes through the view that the engine has of
that run: an `EngineRun`. In return an engine reads a run's `EngineProblem`.

Shape legend: losses (steps, nodes of a run).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from basegraph.algorithms.method import Method
from basegraph.data.plan import SamplePlanner
from basegraph.engines.evaluation import Measure, Score, Selection
from basegraph.models.flat import FlatModel
from basegraph.models.gradients import Loss
from basegraph.topologies.two_states.sequence import AnyTopology


class Engine(Protocol):
    """Makes the steps of one or several runs; all of them stand at the same step."""

    @property
    def runs(self) -> Sequence[EngineRun]:
        """The view of each run."""

    @property
    def step(self) -> int:
        """Steps made so far."""

    def advance(self) -> None:
        """Make one step of every run."""

    def losses(self) -> list[Tensor]:
        """The losses (steps, nodes) of each run, at the steps since the last call."""

    def losses_due(self, signals: Sequence[int]) -> bool:
        """Whether `losses` and `agree_on_signals` are to be called after this step.

        Losses may stay on the device for some steps, so that nothing waits for them. With several
        processes the answer is the same in all of them, whatever signals one of them has seen.
        """

    def agree_on_signals(self, seen: Sequence[int]) -> list[int]:
        """The signals that any process of this run has seen: runs stop if there is one."""


class EngineRun(Protocol):
    """The view of one run: its nodes and no others."""

    @property
    def step(self) -> int:
        """Steps made so far."""

    @property
    def hardware(self) -> str:
        """What the steps are made on, and how: for the record."""

    def evaluate(self, selection: Selection) -> dict[str, Score]:
        """The scores of these nodes on these samples, by set, and by group where it has groups."""

    def consensus_distance(self) -> float:
        """(1/n) Σ_i |x_i - mean|²."""

    def first_nonfinite(self) -> tuple[str, int] | None:
        """The first tensor with a value that is not finite, and its node; or None."""

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint holds, (nodes, ...) each: the models `x` and the parts `state.*`."""

    def restore(self, tensors: Mapping[str, Tensor], step: int) -> None:
        """Continue from what `tensors` gave after this step."""


class EngineSettings(Protocol):
    """The fields of a run's configuration that engines read."""

    @property
    def nodes(self) -> int:
        """Number of nodes n."""

    @property
    def model(self) -> str:
        """The model's name, for messages."""

    @property
    def normalize(self) -> str:
        """How images are normalized: dataset, half or none."""

    @property
    def padding(self) -> str:
        """What is around cropped images: zero after normalization, or black before it."""

    @property
    def weight_decay(self) -> float:
        """λ of weight decay, in the gradient or decoupled: as the method says."""

    @property
    def clip(self) -> float:
        """The largest norm of a node's gradient; 0: not clipped."""

    @property
    def wire(self) -> str:
        """How models are sent, as a spec of `basegraph.wires`."""

    @property
    def local_steps(self) -> int:
        """The nodes communicate every so many steps."""

    @property
    def precision(self) -> str:
        """Of products in the model: tf32, float32 or bf16."""

    @property
    def device(self) -> str:
        """The device asked for."""

    @property
    def capture(self) -> bool:
        """Whether a GPU replays the step as one CUDA graph."""

    @property
    def compile(self) -> bool:
        """Whether the captured step is compiled."""


class EngineProblem(Protocol):
    """What an engine needs to know of a run; `basegraph.training.problem.Problem` is one."""

    method: Method
    model: FlatModel
    planner: SamplePlanner
    topology: AnyTopology
    steps_per_epoch: int
    loss: Loss
    measure: Measure
    """What evaluations measure."""
    evaluated: Selection
    """What evaluations use before the last one."""

    @property
    def config(self) -> EngineSettings:
        """How the run is to be executed."""

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""

    @property
    def sample_order(self) -> Hashable:
        """Equal for runs whose nodes see the same samples in the same order."""

    def shared(self) -> tuple[Any, ...]:
        """What runs must have in common to be trained by one engine."""

    def learning_rate(self, step: int) -> float:
        """η of a step."""

    def round_number(self, step: int) -> int | None:
        """The round of the topology that a step mixes with; None where no node communicates."""
