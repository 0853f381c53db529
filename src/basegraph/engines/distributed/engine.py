"""The distributed engine: one node of a run per process, the same numbers as in one process.

Shape legend: x_d the parameters of this node; d of them, n nodes.
"""

from __future__ import annotations

import signal
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from basegraph.data.augment import gather
from basegraph.data.dataset import Dataset
from basegraph.engines.device import on_device
from basegraph.engines.distributed import collectives
from basegraph.engines.distributed.membership.torchrun import orphaned
from basegraph.engines.evaluation import Accuracy, Questions, chunk_size, correct, one_by_one
from basegraph.models.gradients import Gradients, products_in
from basegraph.optim.decentralized import DecentralizedOptimizer
from basegraph.training.problem import Problem
from basegraph.training.selection import Selection

PATIENCE = 10
"""The most steps between two times at which all nodes tell each other their losses."""
OFTEN = 1.0
"""Seconds between two such times, if steps take long: a signal is heeded only then."""

PARENT_ENDED = signal.SIGHUP
"""The signal that stands for torchrun's end: nobody sends one then."""


class DistributedEngine:
    """Holds one node's model and the data, and makes steps with the others."""

    alone = False
    patience = 1

    def __init__(
        self, dataset: Dataset, replica: Problem, device: torch.device, timeout: float
    ) -> None:
        self.replicas = [replica]
        self.config = config = replica.config
        self.node, self.n = dist.get_rank(), dist.get_world_size()
        self.device = device
        self.steps_per_epoch, self.total_steps = replica.steps_per_epoch, replica.total_steps
        self.mean, self.std = (torch.as_tensor(s).to(device) for s in dataset.statistics())
        self.images, self.labels = on_device(dataset.train, device)
        self.test = on_device(dataset.test, device)
        model = replica.model
        model.module.to(device)
        self.gradients = Gradients(model, nn.functional.cross_entropy, precision=config.precision)
        self.optimizer = DecentralizedOptimizer(
            model.module.parameters(),
            replica.method,
            lr=config.lr,
            topology=replica.topology,
            weight_decay=config.weight_decay,
            local_steps=config.local_steps,
            timeout=timeout,
            refuse_nonfinite=False,  # the run looks after that, see `not_finite`
            allow_unstable=config.allow_unstable,
        )
        self.optimizer._node.stop.enabled = False  # all nodes stop at the same step, see `heed`
        self.mixer = self.optimizer.mixer
        self._epoch: tuple[int, dict[str, Tensor]] | None = None
        self._losses: list[Tensor] = []
        self._heeded = self.step, time.monotonic()

    @property
    def step(self) -> int:
        """Steps made so far."""
        return self.optimizer.gossip_step

    @property
    def x_d(self) -> Tensor:
        """The model of this node."""
        return self.optimizer.model

    # -- steps -------------------------------------------------------------------------------

    def advance(self) -> None:
        """Make one step, with the others."""
        planned = self._inputs(self.step)
        samples = gather(self.images, **planned, mean=self.mean, std=self.std)
        labels = self.labels[planned["sample"]]
        with products_in(self.config.precision):
            losses, gradients = self.gradients(self.x_d[None], samples[None], labels[None])
        parts = self.replicas[0].model.views(gradients[0])
        for name, parameter in self.replicas[0].model.module.named_parameters():
            parameter.grad = parts[name]
        for group in self.optimizer.param_groups:
            group["lr"] = self.replicas[0].learning_rate(self.step)
        self.optimizer.step()
        self._losses.append(losses[0])

    def _inputs(self, step: int) -> dict[str, Tensor]:
        """What is planned for a step of this node."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            first = epoch * self.steps_per_epoch
            planner = self.replicas[0].planner
            plan = planner.steps(first, first + self.steps_per_epoch, [self.node])._asdict()
            self._epoch = (
                epoch,
                {
                    name: torch.as_tensor(part[:, 0]).to(self.device)
                    for name, part in plan.items()
                    if part is not None
                },
            )
        return {name: part[within] for name, part in self._epoch[1].items()}

    def losses(self) -> Tensor:
        """The nodes' losses (steps, n) at the steps since this was last asked."""
        if not self._losses:
            return torch.empty(0, self.n)
        found = self._of_all(torch.stack(self._losses), "the losses")
        self._losses = []
        return found.T.cpu()

    def heed(self, told: list[int]) -> list[int]:
        """The signals that any node has seen; by how long it took, when they are heeded next."""
        own = told[0] if told else int(PARENT_ENDED) if orphaned() else 0
        now, (step, before) = time.monotonic(), self._heeded
        each = (now - before) / max(1, self.step - step)
        number = torch.tensor([own, each], dtype=torch.float64, device=self.device)
        seen = self._of_all(number, "the signals").cpu()
        self.patience = int(min(PATIENCE, max(1.0, OFTEN / max(float(seen[:, 1].max()), 1e-9))))
        self._heeded = self.step, time.monotonic()
        return [int(number) for number in seen[:, 0] if number]

    # -- what came out -----------------------------------------------------------------------

    def rows(self, replica: int = 0) -> slice:
        """Where the run's nodes are among all."""
        return slice(0, self.n)

    def evaluate(self, replica: int = 0, selection: Selection | None = None) -> dict[str, Accuracy]:
        """Accuracies of these nodes on these samples, by set; of all where nothing is selected.

        Every node evaluates its own model, and the average of all on its share of the samples.
        """
        selection = selection or self.replicas[0].evaluated_last
        average = self._average(self.x_d.clone())
        mine = self.node in selection.nodes
        found = {}
        for name, samples in selection.sets.items():
            images, labels = self.test if name == "test" else (self.images, self.labels)
            places = torch.as_tensor(samples).to(self.device)
            own = places if mine else places[:0]
            asked = Questions(images, labels, own, self.mean, self.std)
            shared = asked._replace(places=places[self.node :: self.n])
            right = torch.cat([self._correct(self.x_d, asked), self._correct(average, shared)])
            counts = self._of_all(right, "the evaluation").cpu()
            nodes = counts[torch.as_tensor(selection.nodes), 0]
            found[name] = Accuracy.of(nodes, counts[:, 1].sum(), len(samples))
        return found

    def _correct(self, model: Tensor, asked: Questions) -> Tensor:
        outputs = one_by_one(self.replicas[0].model)
        chunk = chunk_size(1, len(asked.places))
        with products_in(self.config.precision):
            return correct(outputs, model[None], asked, together=1, chunk=chunk)

    def consensus_distance(self, replica: int = 0) -> float:
        """(1/n) Σ_i |x_i - mean|²."""
        x_d = self.optimizer.vectors()["x"].double()
        far = (x_d - self._average(x_d.clone())).square().sum()
        return float(self._of_all(far[None], "the evaluation").mean())

    def not_finite(self, replica: int = 0) -> tuple[str, int] | None:
        """What is no number any more, and at which node."""
        vectors = self.optimizer.vectors()
        good = torch.stack([torch.isfinite(vector).all() for vector in vectors.values()])
        finite = self._of_all(good.to(torch.int64), "the models")
        for node, row in enumerate(finite.tolist()):
            for name, fine in zip(vectors, row, strict=True):
                if not fine:
                    return name, node
        return None

    def facts(self, replica: int = 0) -> dict[str, Any]:
        """What is known before the first step and is no choice of the user's."""
        name = self.device.type
        if name == "cuda":
            name = f"{torch.cuda.get_device_name(self.device)}, {self.config.precision}"
        return {**self.replicas[0].facts(), "device": f"{name}, {self.n} processes"}

    def bytes_sent(self, replica: int = 0) -> float:
        """What a node has sent so far, in the mean over nodes."""
        return self.replicas[0].bytes_sent(self.step, self.x_d.element_size())

    # -- checkpoints -------------------------------------------------------------------------

    def tensors(self, replica: int = 0) -> dict[str, Tensor]:
        """At node 0 all that a resumed run needs besides the step, (n, ...); nothing elsewhere."""
        found = {}
        for name, own in self.optimizer.vectors().items():
            rows = collectives.gather(own, None, f"the checkpoint of step {self.step}")
            if rows:
                found[name] = torch.stack(rows)
        return found

    def restore(self, tensors: dict[str, Tensor], step: int, replica: int = 0) -> None:
        """Continue from what node 0 has."""
        own = {name: torch.empty_like(v) for name, v in self.optimizer.vectors().items()}
        for name, mine in own.items():
            rows = list(tensors[name].to(mine)) if self.node == 0 else []
            collectives.scatter(mine, rows, None, "the restart")
        self.optimizer.restore(own, step)

    def begin_again(self, x_d: Tensor, step: int) -> None:
        """All nodes at this model, with a fresh state of the method."""
        state = self.replicas[0].method.state(x_d, step)
        named = {f"state.{name}": part for name, part in state._asdict().items()}
        self.optimizer.restore({"x": x_d, **named}, step)
        self._epoch = None

    # -- all nodes ---------------------------------------------------------------------------

    def _average(self, x_d: Tensor) -> Tensor:
        return self.mixer.average(x_d, self.step, x_d)

    def _of_all(self, own: Tensor, what: str) -> Tensor:
        """(n, ...): what each node has."""
        return torch.stack(collectives.all_gather(own, None, f"{what} of step {self.step}"))
