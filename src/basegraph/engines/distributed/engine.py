"""The distributed engine: one node of a run per process, the same numbers as in one process.

Shape legend: x_d the parameters of this node; d of them, n nodes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from basegraph.data.dataset import Dataset
from basegraph.engines.clipping import clipped
from basegraph.engines.contract import EngineProblem, EngineRun
from basegraph.engines.device import DeviceData
from basegraph.engines.distributed import collectives
from basegraph.engines.distributed.blocks import GradientPart, Options, in_blocks
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.torchrun import orphaned
from basegraph.engines.distributed.method import NodeMethod
from basegraph.engines.distributed.node import Node
from basegraph.engines.distributed.options import NodeOptions
from basegraph.engines.evaluation import (
    Outputs,
    Questions,
    SampleLosses,
    Score,
    Selection,
    chunk_size,
    one_by_one,
    totals,
)
from basegraph.models.gradients import Gradients, products_in

MAX_PENDING = 10
"""The most steps between two exchanges of losses and signals."""
EXCHANGE_SECONDS = 1.0
"""Seconds between two such exchanges, if steps take long: a signal is seen by all only then."""

PARENT_ENDED = signal.SIGHUP
"""The signal that stands for torchrun's end: none is sent then."""


class DistributedEngine:
    """Holds one node's model and the data, and makes steps with the others.

    It makes one run, and is the view of that run itself.
    """

    def __init__(self, dataset: Dataset, problem: EngineProblem, membership: Membership) -> None:
        self.problem = problem
        self.config = config = problem.config
        self.membership = membership
        self.device = device = membership.device
        self.steps_per_epoch = problem.steps_per_epoch
        self.data = DeviceData(dataset, device, normalize=config.normalize, padding=config.padding)
        model = problem.model
        model.module.to(device)
        self.gradients = Gradients(model, problem.loss, precision=config.precision)
        node = Node(
            list(model.module.parameters()),
            problem.topology,
            membership,
            NodeOptions(
                local_steps=config.local_steps,
                wire=config.wire,
                refuse_nonfinite=False,  # the run looks after that, see `first_nonfinite`
                stop_with_torchrun=False,  # all nodes stop at the same step
            ),
        )
        node.start({"algorithm": problem.method.name})
        self.method = NodeMethod(problem.method, node)
        self._epoch: tuple[int, dict[str, Tensor]] | None
        self._losses: list[Tensor]
        self._exchanged: tuple[int, float]
        self._stand_at(0)

    @property
    def node(self) -> int:
        """The number of this node."""
        return self.membership.node

    @property
    def n(self) -> int:
        """How many nodes there are."""
        return self.membership.n

    @property
    def runs(self) -> Sequence[EngineRun]:
        """The view of the one run: this engine."""
        return (self,)

    @property
    def step(self) -> int:
        """Steps made so far."""
        return self._step

    @property
    def x_d(self) -> Tensor:
        """The model of this node."""
        return self.method.node.x_d

    # -- steps -------------------------------------------------------------------------------

    def advance(self) -> None:
        """Make one step, with the others."""
        samples, labels = self.data.batch(self._planned(self.step))
        with products_in(self.config.precision):
            losses, gradients = self.gradients(self.x_d[None], samples[None], labels[None])
        self.method.step(self.step, in_blocks(self._parts(clipped(gradients[0], self.config.clip))))
        self._step += 1
        self._losses.append(losses[0])

    def _parts(self, gradient: Tensor) -> list[GradientPart]:
        """The gradient with what applies to it: in parts, if some of them do not decay."""
        method, decay = self.problem.method, self.config.weight_decay
        options = Options(self.problem.learning_rate(self.step), decay, method)
        if not decay or not method.decoupled_decay:
            return [GradientPart(0, gradient, options)]
        return [
            GradientPart(
                part.first,
                gradient[part.first : part.first + part.size],
                options._replace(decay=part.decays * decay),
            )
            for part in self.problem.model.decay_parts()
        ]

    def _planned(self, step: int) -> dict[str, Tensor]:
        """What is planned for a step of this node."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            first = epoch * self.steps_per_epoch
            last = first + self.steps_per_epoch
            plan = self.problem.planner.steps(first, last, [self.node])._asdict()
            self._epoch = (
                epoch,
                {
                    name: torch.as_tensor(part[:, 0]).to(self.device)
                    for name, part in plan.items()
                    if part is not None
                },
            )
        return {name: part[within] for name, part in self._epoch[1].items()}

    def losses(self) -> list[Tensor]:
        """The losses (steps, n) of all nodes, at the steps since the last call."""
        if not self._losses:
            return [torch.empty(0, self.n)]
        losses = self._of_all(torch.stack(self._losses), "the losses")
        self._losses = []
        return [losses.T.cpu()]

    def losses_due(self, signals: Sequence[int]) -> bool:
        """Whether enough steps are pending: in all processes at the same step.

        Also if the nodes meet next, as others may be there then.
        """
        meets = self.method.node.meetings.due(self.step)
        return meets or len(self._losses) >= self._max_pending

    def agree_on_signals(self, seen: Sequence[int]) -> list[int]:
        """The signals that any node has seen; by the time of a step, when to ask next."""
        signal_number = seen[0] if seen else int(PARENT_ENDED) if orphaned() else 0
        now, (step, before) = time.monotonic(), self._exchanged
        each = (now - before) / max(1, self.step - step)
        number = torch.tensor([signal_number, each], dtype=torch.float64, device=self.device)
        answers = self._of_all(number, "the signals").cpu()
        slowest = max(float(answers[:, 1].max()), 1e-9)
        self._max_pending = int(min(MAX_PENDING, max(1.0, EXCHANGE_SECONDS / slowest)))
        self._exchanged = self.step, time.monotonic()
        return [int(number) for number in answers[:, 0] if number]

    # -- what came out -----------------------------------------------------------------------

    @property
    def hardware(self) -> str:
        """What the steps are made on."""
        name = self.device.type
        if name == "cuda":
            name = f"{torch.cuda.get_device_name(self.device)}, {self.config.precision}"
        return f"{name}, {self.n} processes"

    def evaluate(self, selection: Selection) -> dict[str, Score]:
        """The scores of these nodes on these samples, by set.

        Every node evaluates its own model, and the average of all on its share of the samples.
        """
        average = self._average(self.x_d.clone())
        evaluates = self.node in selection.nodes
        scores: dict[str, Score] = {}
        for name, samples in selection.sets.items():
            places = torch.as_tensor(samples).to(self.device)
            every = self.data.questions(name, places).of_groups(selection, name)
            asked = every if evaluates else every.some(slice(0, 0))
            shared = every.some(slice(self.node, None, self.n))
            sums = torch.cat([self._totals(self.x_d, asked), self._totals(average, shared)])
            counts = self._of_all(sums, "the evaluation").cpu()
            nodes, shares = counts[torch.as_tensor(selection.nodes), 0], counts[:, 1].sum(dim=0)
            sizes = selection.group_sizes(name)
            scores |= self.problem.measure.scores(name, nodes, shares, sizes)
        return scores

    def _totals(self, model: Tensor, asked: Questions) -> Tensor:
        outputs: Outputs | SampleLosses = one_by_one(self.problem.model)
        if self.gradients.predicts_tokens:
            outputs = SampleLosses(
                lambda models, *asked: self.gradients.sample_losses(
                    models, *(a[None] for a in asked)
                )
            )
        measure = self.problem.measure
        chunk = chunk_size(1, asked)
        with products_in(self.config.precision):
            return totals(measure, outputs, model[None], asked, together=1, chunk=chunk)

    def consensus_distance(self) -> float:
        """(1/n) Σ_i |x_i - mean|²."""
        x_d = self.method.vectors()["x"].double()
        far = (x_d - self._average(x_d.clone())).square().sum()
        return float(self._of_all(far[None], "the evaluation").mean())

    def first_nonfinite(self) -> tuple[str, int] | None:
        """The first tensor of any node with a value that is not finite, and its node; or None."""
        vectors = self.method.vectors()
        good = torch.stack([torch.isfinite(vector).all() for vector in vectors.values()])
        finite = self._of_all(good.to(torch.int64), "the models")
        for node, each in enumerate(finite.tolist()):
            for name, fine in zip(vectors, each, strict=True):
                if not fine:
                    return name, node
        return None

    # -- checkpoints -------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """At node 0 what a checkpoint holds, (n, ...) each; nothing elsewhere."""
        gathered = {}
        for name, vector in self.method.vectors().items():
            parts = collectives.gather(
                vector, self.membership, f"the checkpoint of step {self.step}"
            )
            if parts:
                gathered[name] = torch.stack(parts)
        return gathered

    def restore(self, tensors: Mapping[str, Tensor], step: int) -> None:
        """Continue from what node 0 has."""
        vectors = {name: torch.empty_like(v) for name, v in self.method.vectors().items()}
        for name, vector in vectors.items():
            parts = list(tensors[name].to(vector)) if self.node == 0 else []
            collectives.scatter(vector, parts, self.membership, "the restart")
        self.method.restore(vectors)
        self._stand_at(step)

    def begin_again(self, x_d: Tensor, step: int) -> None:
        """All nodes at this model, with a fresh state of the method."""
        self.method.restart(x_d, step)
        self._stand_at(step)

    def _stand_at(self, step: int) -> None:
        """So many steps are made, and nothing is pending."""
        self._step = step
        self._epoch = None
        self._losses = []
        self._max_pending = 1
        self._exchanged = step, time.monotonic()

    # -- nodes that join and leave --------------------------------------------------------------

    @property
    def rounds_from(self) -> int:
        """The step at which round 0 of the topology was due."""
        return self.method.node.exchanges.start

    def go_on(self, problem: EngineProblem, step: int) -> None:
        """Go on with other nodes: a state that is tied to those that were there begins anew.

        Args:
            problem: The same, for their number.
            step: Steps made so far.

        """
        self.problem = problem
        self.config = problem.config
        self.steps_per_epoch = problem.steps_per_epoch
        if not problem.method.keeps_state:
            self.method.restart(self.x_d.clone(), step)
        self._stand_at(step)

    # -- all nodes ---------------------------------------------------------------------------

    def _average(self, x_d: Tensor) -> Tensor:
        return self.method.node.exchanges.mixer.average(x_d, self.step, x_d)

    def _of_all(self, part: Tensor, what: str) -> Tensor:
        """(n, ...): what each node has."""
        phase = f"{what} of step {self.step}"
        return torch.stack(collectives.all_gather(part, self.membership, phase))
