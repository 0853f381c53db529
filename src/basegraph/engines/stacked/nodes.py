"""The nodes of one or several runs as buffers on a device, with the data that they train on.

Shape legend: N nodes of all runs together, n of one; x_nd nodes × parameters; samples
(N, B, C, H, W); labels (N, B).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from basegraph.data.augment import gather, taken
from basegraph.data.dataset import Dataset
from basegraph.data.plan import EpochPlan
from basegraph.engines.contract import EngineProblem
from basegraph.engines.device import DeviceData, pick_device
from basegraph.engines.stacked.mixer import average
from basegraph.errors import InvalidArgument
from basegraph.models.flat import aligned
from basegraph.models.gradients import Gradients

MISFITS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError)
"""What torch raises where a model or a loss does not take what it is given."""


class StackedNodes:
    """The models and states of all nodes, and the step at which they stand.

    Args:
        dataset: What all runs are trained on.
        problems: One per run; they must have in common what `EngineProblem.shared` says.

    Raises:
        InvalidArgument: If the problems differ otherwise, or the model does not fit the data.

    """

    def __init__(self, dataset: Dataset, problems: Sequence[EngineProblem]) -> None:
        first = problems[0]
        if any(problem.shared() != first.shared() for problem in problems):
            raise InvalidArgument(
                "problems", len(problems), "may differ only in seed, lr, alpha and topology"
            )
        self.problems = list(problems)
        self.config = first.config
        self.n = first.config.nodes
        self.method = first.method
        self.model = first.model
        self.steps_per_epoch, self.total_steps = first.steps_per_epoch, first.total_steps
        self.device = pick_device(self.config.device)
        self.model.module.to(self.device)
        self.data = DeviceData(
            dataset, self.device, normalize=self.config.normalize, padding=self.config.padding
        )
        self.gradients = Gradients(self.model, first.loss, precision=self.config.precision)
        self.decay = self._decay()
        self.step = 0
        starts = torch.stack([problem.model.initial().to(self.device) for problem in problems])
        self.x_nd = aligned(starts.repeat_interleave(self.n, dim=0))
        self.x_nd.copy_(starts.repeat_interleave(self.n, dim=0))
        self.state = _own_state(self.method, self.x_nd)
        self._refuse_misfit(dataset)

    def hardware(self, *how: str) -> str:
        """What the steps are made on, and how, in words."""
        if self.device.type == "cuda":
            name = torch.cuda.get_device_name(self.device)
            return ", ".join([name, *how, self.config.precision])
        count = torch.get_num_threads()
        return ", ".join(
            [str(self.device), *how, f"{count} {'thread' if count == 1 else 'threads'}"]
        )

    def plan(self, epoch: int) -> dict[str, Tensor]:
        """What the nodes see in an epoch, (steps, N, ...) by name, in main memory."""
        first = epoch * self.steps_per_epoch
        planners = {problem.sample_order: problem.planner for problem in self.problems}

        def draw(order: object) -> EpochPlan:
            return planners[order].steps(first, first + self.steps_per_epoch)

        with ThreadPoolExecutor() as threads:  # one run's draws take as long as its steps on a GPU
            drawn = dict(zip(planners, threads.map(draw, planners), strict=True))
        plans = [drawn[problem.sample_order] for problem in self.problems]  # one order, one plan
        return {
            name: torch.as_tensor(np.concatenate(parts, axis=1))
            for name, parts in zip(EpochPlan._fields, zip(*plans, strict=True), strict=True)
            if parts[0] is not None
        }

    def _decay(self) -> float | Tensor:
        """λ of every parameter: one number, or a row (1, d) where it is decoupled."""
        decay = self.config.weight_decay
        if not decay or not self.method.decoupled_decay:
            return decay
        return torch.cat(
            [torch.full((1, part.size), part.decays * decay) for part in self.model.decay_parts()],
            dim=1,
        ).to(self.device)

    def average(self, x_nd: Tensor) -> Tensor:
        """The exact average of each run, at all of its nodes."""
        if len(self.problems) == 1:
            return average(x_nd)
        x = x_nd.view(-1, self.n, x_nd.shape[1])
        return x.mean(dim=1, keepdim=True).expand_as(x).flatten(0, 1)

    def _refuse_misfit(self, dataset: Dataset) -> None:
        """Refuse a model that does not fit, by one node's gradient on two samples."""
        config, data, classes = self.config, self.data, dataset.classes
        two = torch.arange(2, device=self.device)[None] % len(data.test_inputs)
        samples, targets = (
            gather(data.test_inputs, two, data.mean, data.std),
            taken(data.test_targets, two),
        )
        network = self.gradients.network
        if config.precision == "bf16" and network is not None and not network.takes(samples):
            raise InvalidArgument(
                "precision", "bf16", "is for images, vectors of numbers and, with gpt, tokens"
            )
        shape = tuple(samples.shape[2:])
        try:
            outputs = self.model.forward(self.x_nd[0], samples[0])
        except MISFITS as error:
            kind = "images" if data.mean is not None else "inputs"
            raise InvalidArgument(
                "model", config.model, f"does not take {kind} {shape}: {_first_line(error)}"
            ) from None
        if classes is not None and outputs.shape != (2, classes):
            given = tuple(outputs.shape[1:])
            raise InvalidArgument(
                "model", config.model, f"gives {given} instead of {classes} outputs"
            )
        if dataset.vocabulary is not None and (
            outputs.shape[:-1] != samples.shape[1:] or outputs.shape[-1] < dataset.vocabulary
        ):
            raise InvalidArgument(
                "model",
                config.model,
                f"gives {tuple(outputs.shape[1:])} for {shape[0]} tokens of a vocabulary of "
                f"{dataset.vocabulary}; must be logits ({shape[0]}, {dataset.vocabulary})",
            )
        try:
            losses, _ = self.gradients(self.x_nd[:1], samples, targets)
        except MISFITS as error:
            name = getattr(self.problems[0].loss, "__name__", type(self.problems[0].loss).__name__)
            raise InvalidArgument(
                "loss", name, f"does not take outputs {tuple(outputs.shape)}: {_first_line(error)}"
            ) from None
        if losses.shape != (1,):
            raise InvalidArgument("loss", tuple(losses.shape[1:]), "must be one number")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _own_state(method: Any, x_nd: Tensor) -> Any:
    """The method's first state in buffers of its own (some methods begin with x itself)."""
    state = method.init(x_nd)
    buffers = [aligned(part) for part in state]
    for buffer, part in zip(buffers, state, strict=True):
        buffer.copy_(part)
    return type(state)(*buffers)
