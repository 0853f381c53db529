"""The stacked engine: all nodes of one run, or of several runs side by side, in one process.

Shape legend: N nodes of all runs together, n of one; x_nd nodes × parameters; samples
(N, B, C, H, W); labels (N, B).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from basegraph.algorithms.local_steps import communicates, round_index
from basegraph.data.dataset import Dataset
from basegraph.engines.clipping import clipped
from basegraph.engines.contract import EngineProblem
from basegraph.engines.stacked.losses import PendingLosses, signals_of_one_process
from basegraph.engines.stacked.mixer import StackedMixer
from basegraph.engines.stacked.nodes import StackedNodes
from basegraph.engines.stacked.update import update, updates_in_blocks
from basegraph.engines.stacked.view import StackedRun, batched_outputs
from basegraph.engines.stacked.wired import WiredMixer
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence
from basegraph.wires.catalog import wire
from basegraph.wires.contract import Wire


class StackedEngine:
    """Makes steps one operation after another, on a CPU or a GPU.

    Args:
        dataset: What all runs are trained on.
        problems: One per run; they may differ in seed, learning rate, α and topology.

    """

    def __init__(self, dataset: Dataset, problems: Sequence[EngineProblem]) -> None:
        self.nodes = nodes = StackedNodes(dataset, problems)
        chosen = wire(nodes.config.wire)
        self._mixers = [_mixer(p.topology, nodes.device, chosen) for p in problems]
        self._whole = not chosen.keeps(torch.float32)
        in_blocks = updates_in_blocks(nodes.x_nd) and not self._whole
        self._gradients = torch.empty_like(nodes.x_nd) if in_blocks else None
        self._epoch: tuple[int, dict[str, Tensor]] | None = None
        self._losses = PendingLosses(nodes)
        outputs, hardware = batched_outputs(nodes), nodes.hardware()
        self.runs = [
            StackedRun(nodes, i, outputs, hardware, wired=mixer if self._whole else None)
            for i, mixer in enumerate(self._mixers)
        ]

    @property
    def step(self) -> int:
        """Steps made so far."""
        return self.nodes.step

    def advance(self) -> None:
        """Make one step of every run."""
        nodes = self.nodes
        at = nodes.method.gradient_point(nodes.x_nd, nodes.state)
        samples, labels = nodes.data.batch(self.planned(nodes.step))
        losses, gradients = nodes.gradients(at, samples, labels, self._gradients)
        gradients = clipped(gradients, nodes.config.clip)
        lr, mix = self._learning_rates(nodes.step), self._mix(nodes.step)
        nodes.x_nd, nodes.state = update(
            *(nodes.method, nodes.x_nd, gradients, nodes.state, lr, mix, nodes.decay),
            whole=self._whole,
        )
        self._losses.extend([losses])
        nodes.step += 1

    def losses(self) -> list[Tensor]:
        """The losses (steps, n) of each run, at the steps since the last call."""
        return self._losses.take()

    def losses_due(self, signals: Sequence[int]) -> bool:
        """Whether enough steps are pending, or a signal asks to stop."""
        return self._losses.due(signals)

    agree_on_signals = staticmethod(signals_of_one_process)

    def planned(self, step: int) -> dict[str, Tensor]:
        """What the nodes see at a step, on the device; an epoch is planned and uploaded at once."""
        epoch, within = divmod(step, self.nodes.steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            plan = self.nodes.plan(epoch).items()
            self._epoch = epoch, {name: part.to(self.nodes.device) for name, part in plan}
        return {name: part[within] for name, part in self._epoch[1].items()}

    def _learning_rates(self, step: int) -> Any:
        """One number for a single run, or a column (N, 1)."""
        nodes = self.nodes
        rates = [problem.learning_rate(step) for problem in nodes.problems]
        if len(rates) == 1:
            return rates[0]
        return torch.tensor(rates, device=nodes.device).repeat_interleave(nodes.n)[:, None]

    def _mix(self, step: int) -> Callable[..., Any] | None:
        """The round of a step, or None where no node communicates."""
        nodes = self.nodes
        if not communicates(step, nodes.config.local_steps):
            return None
        if nodes.method.centralized:
            return nodes.average
        number = round_index(step, nodes.config.local_steps)
        rounds = [mixer.round(number) for mixer in self._mixers]
        if len(rounds) == 1:
            return rounds[0]
        if nodes.method.vectors == 2:
            return lambda v_nd, w_nd: _both_side_by_side(rounds, v_nd, w_nd, nodes.n)
        return lambda x_nd: torch.cat(
            [mix(x) for mix, x in zip(rounds, torch.split(x_nd, nodes.n), strict=True)]
        )


def _mixer(topology: AnyTopology, device: torch.device, chosen: Wire) -> StackedMixer | WiredMixer:
    if chosen.keeps(torch.float32) or isinstance(topology, TwoStateSequence):
        return StackedMixer(topology, device, torch.float32)
    return WiredMixer(topology, device, torch.float32, chosen)


def _both_side_by_side(
    rounds: list[Callable[..., Any]], v_nd: Tensor, w_nd: Tensor, n: int
) -> tuple[Tensor, Tensor]:
    """Both vectors of the nodes of several runs, each run mixed by its own round."""
    parts = zip(rounds, torch.split(v_nd, n), torch.split(w_nd, n), strict=True)
    sent, others = zip(*(mix(v, w) for mix, v, w in parts), strict=True)
    return torch.cat(sent), torch.cat(others)
