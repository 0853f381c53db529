"""The view of one run among the stacked nodes of several.

Shape legend: x_nd the run's nodes × parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from basegraph.engines.evaluation import (
    Outputs,
    SampleLosses,
    Score,
    Selection,
    chunk_size,
    consensus_distance,
    one_by_one,
    totals,
)
from basegraph.engines.stacked.nodes import StackedNodes
from basegraph.engines.vectors import by_name
from basegraph.models.gradients import products_in


class StackedRun:
    """A run's nodes: some consecutive ones of the stacked nodes.

    Args:
        nodes: The nodes of all runs.
        index: Which of the runs this is.
        outputs: How models answer, see `batched_outputs`.
        hardware: What the steps are made on, and how.
        one_shape: Whether every evaluation takes the shapes of those before the last one, so that
            a compiler meets no others.
        wired: The run's `WiredMixer`, where models come over a wire that keeps a state.

    """

    def __init__(
        self,
        nodes: StackedNodes,
        index: int,
        outputs: Outputs | SampleLosses,
        hardware: str,
        *,
        one_shape: bool = False,
        wired: Any = None,
    ) -> None:
        self.problem = nodes.problems[index]
        self.hardware = hardware
        self._nodes = nodes
        self._where = slice(index * nodes.n, (index + 1) * nodes.n)
        self._outputs = outputs
        self._one_shape = one_shape
        self._wired = wired

    @property
    def step(self) -> int:
        """Steps made so far."""
        return self._nodes.step

    @property
    def x_nd(self) -> Tensor:
        """The models of the run's nodes."""
        return self._nodes.x_nd[self._where]

    @property
    def state(self) -> Any:
        """The method's state at the run's nodes."""
        state = self._nodes.state
        return type(state)(*(part[self._where] for part in state))

    def evaluate(self, selection: Selection) -> dict[str, Score]:
        """The scores of these nodes on these samples, by set."""
        every, measure = self._nodes, self.problem.measure
        x_nd = every.method.gradient_point(self.x_nd, self.state)
        nodes = torch.as_tensor(selection.nodes).to(every.device)
        chosen = x_nd if len(nodes) == len(x_nd) else x_nd[nodes]
        models = torch.cat([chosen, x_nd.mean(dim=0, keepdim=True)])
        usual = self.problem.evaluated if self._one_shape else selection
        together = len(usual.nodes) + 1
        scores: dict[str, Score] = {}
        for name, samples in selection.sets.items():
            asked = every.data.questions(name, torch.as_tensor(samples).to(every.device))
            asked = asked.of_groups(selection, name)
            chunk = chunk_size(together, asked, len(usual.sets[name]))
            with products_in(every.config.precision):
                sums = totals(measure, self._outputs, models, asked, together=together, chunk=chunk)
            scores |= measure.scores(name, sums[:-1], sums[-1], selection.group_sizes(name))
        return scores

    def consensus_distance(self) -> float:
        """(1/n) Σ_i |x_i - mean|²."""
        return consensus_distance(self.x_nd)

    def first_nonfinite(self) -> tuple[str, int] | None:
        """The first tensor with a value that is not finite, and its node; or None."""
        for name, tensor in by_name(self.x_nd, self.state).items():
            good = torch.isfinite(tensor).all(dim=1)
            if not good.all():
                return name, int(torch.argmin(good.int()))
        return None

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the models `x`, the parts `state.*` and `wire.*`, as views."""
        own = by_name(self.x_nd, self.state)
        return own if self._wired is None else {**own, **self._wired.tensors(self.x_nd)}

    def restore(self, tensors: Mapping[str, Tensor], step: int) -> None:
        """Continue from what `tensors` gave after this step."""
        for name, tensor in by_name(self.x_nd, self.state).items():
            tensor.copy_(tensors[name])
        if self._wired is not None:
            local_steps = self._nodes.config.local_steps
            self._wired.restore(tensors, self.x_nd, rounds=step // local_steps)
        self._nodes.step = step


def batched_outputs(
    nodes: StackedNodes, wrap: Callable[[Any], Any] | None = None
) -> Outputs | SampleLosses:
    """The outputs of several models for the same samples, by the quickest way there is.

    Args:
        nodes: Whose model it is.
        wrap: What to do with the function of all models at once: a compiler, or nothing.

    Returns:
        How models answer; with the losses of samples where outputs would be too large.

    """
    if nodes.gradients.loops_on(nodes.device):
        return one_by_one(nodes.model)
    if nodes.gradients.predicts_tokens:
        losses = wrap(nodes.gradients.sample_losses) if wrap else nodes.gradients.sample_losses
        return SampleLosses(
            lambda models, *asked: losses(models, *(_for_all(models, part) for part in asked))
        )
    outputs = wrap(nodes.gradients.outputs) if wrap else nodes.gradients.outputs
    return lambda models, samples: outputs(models, _for_all(models, samples))


def _for_all(models: Tensor, samples: Tensor) -> Tensor:
    """The same samples for every model."""
    return samples.expand(len(models), *samples.shape)
