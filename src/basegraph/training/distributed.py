"""The distributed engine: one node of a run per process, the same numbers as in one process.

Shape legend: x_d the parameters of this node; d of them, n nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from basegraph.data.augment import gather
from basegraph.data.dataset import Dataset
from basegraph.models.gradients import Gradients, products_in
from basegraph.optim.decentralized import DecentralizedOptimizer
from basegraph.training.device import on_device
from basegraph.training.evaluate import Accuracy, correct, one_by_one
from basegraph.training.replica import Replica

PATIENCE = 10
"""Steps between two times at which all nodes tell each other their losses."""


class DistributedEngine:
    """Holds one node's model and the data, and makes steps with the others."""

    alone = False
    patience = PATIENCE

    def __init__(
        self, dataset: Dataset, replica: Replica, device: torch.device, timeout: float
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
            allow_unstable=config.allow_unstable,
        )
        self.mixer = self.optimizer.mixer
        self._epoch: tuple[int, dict[str, Tensor]] | None = None
        self._losses: list[Tensor] = []

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
        found = self._of_all(torch.stack(self._losses))
        self._losses = []
        return found.T.cpu()

    def heed(self, told: list[int]) -> list[int]:
        """The signals that any node has seen."""
        number = torch.tensor([told[0] if told else 0], device=self.device)
        return [int(seen) for seen in self._of_all(number) if seen]

    # -- what came out -----------------------------------------------------------------------

    def rows(self, replica: int = 0) -> slice:
        """Where the run's nodes are among all."""
        return slice(0, self.n)

    def evaluate(self, replica: int = 0) -> dict[str, Accuracy]:
        """Accuracies on the test set and on the validation set, where there is one.

        Every node evaluates its own model, and the average of all on its share of the samples.
        """
        average = self._average(self.x_d.clone())
        held = torch.as_tensor(self.replicas[0].validation).to(self.device)
        sets = {"test": self.test, "validation": (self.images[held], self.labels[held])}
        outputs = one_by_one(self.replicas[0].model)
        found = {}
        for name, (images, labels) in sets.items():
            if not len(labels):
                continue
            share = slice(self.node, None, self.n)
            with products_in(self.config.precision):
                own = correct(outputs, self.x_d[None], images, labels, self.mean, self.std)
                part = correct(
                    outputs, average[None], images[share], labels[share], self.mean, self.std
                )
            counts = self._of_all(torch.cat([own, part])).cpu().double() / len(labels)
            nodes, shared = counts[:, 0], counts[:, 1]
            found[name] = Accuracy(float(nodes.mean()), float(shared.sum()), float(nodes.min()))
        return found

    def consensus_distance(self, replica: int = 0) -> float:
        """(1/n) Σ_i |x_i - mean|²."""
        x_d = self.optimizer.vectors()["x"].double()
        far = (x_d - self._average(x_d.clone())).square().sum()
        return float(self._of_all(far[None]).mean())

    def not_finite(self, replica: int = 0) -> tuple[str, int] | None:
        """What is no number any more, and at which node."""
        vectors = self.optimizer.vectors()
        good = torch.stack([torch.isfinite(vector).all() for vector in vectors.values()])
        for node, row in enumerate(self._of_all(good.to(torch.int64)).tolist()):
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
            rows = [torch.empty_like(own) for _ in range(self.n)] if self.node == 0 else None
            self._or_lost(dist.gather, own.contiguous(), rows)
            if rows is not None:
                found[name] = torch.stack(rows)
        return found

    def restore(self, tensors: dict[str, Tensor], step: int, replica: int = 0) -> None:
        """Continue from what node 0 has."""
        own = {name: torch.empty_like(v) for name, v in self.optimizer.vectors().items()}
        for name, mine in own.items():
            rows = list(tensors[name].to(mine)) if self.node == 0 else None
            self._or_lost(dist.scatter, mine, rows)
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

    def _of_all(self, own: Tensor) -> Tensor:
        """(n, ...): what each node has."""
        found = [torch.empty_like(own) for _ in range(self.n)]
        self._or_lost(dist.all_gather, found, own.contiguous())
        return torch.stack(found)

    def _or_lost(self, collective: Callable[..., object], *tensors: Any) -> None:
        try:
            collective(*tensors)
        except RuntimeError as error:
            raise self.mixer.lost(None, f"step {self.step}", error) from None
