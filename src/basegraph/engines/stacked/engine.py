"""The stacked engine: all nodes of one run, or of several runs side by side, in one process.

Shape legend: N nodes of all replicas together, n of one; x_nd nodes × parameters; samples
(N, B, C, H, W); labels (N, B).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from basegraph.data.augment import gather
from basegraph.data.dataset import Dataset
from basegraph.data.plan import EpochPlan
from basegraph.engines.captured.graph import CapturedStep, Compiled, Tables
from basegraph.engines.captured.prefetch import Ahead
from basegraph.engines.captured.tables import RoundTables
from basegraph.engines.device import on_device, pick_device
from basegraph.engines.evaluation import (
    Accuracy,
    Outputs,
    Questions,
    chunk_size,
    consensus_distance,
    correct,
    one_by_one,
)
from basegraph.engines.stacked.mixer import StackedMixer, average
from basegraph.engines.stacked.update import in_blocks, update
from basegraph.errors import InvalidArgument
from basegraph.models.flat import aligned
from basegraph.models.gradients import Gradients, gradients_of, products_in
from basegraph.training.problem import Problem
from basegraph.training.selection import Selection

PENDING = 50
"""Steps whose losses a GPU may keep to itself, so as not to be waited for."""


class StackedEngine:
    """Holds the nodes' models and the data on a device and makes steps."""

    alone = True

    def __init__(self, dataset: Dataset, replicas: Sequence[Problem]) -> None:
        first = replicas[0]
        if any(r.beside() != first.beside() for r in replicas):
            raise InvalidArgument(
                "replicas", len(replicas), "must be alike but for seed, lr, alpha and topology"
            )
        self.replicas = list(replicas)
        self.config = first.config
        self.nodes = first.config.nodes
        self.method = first.method
        self.device = pick_device(self.config.device)
        self.patience = 1 if self.device.type == "cpu" else PENDING
        self.steps_per_epoch, self.total_steps = first.steps_per_epoch, first.total_steps
        first.model.module.to(self.device)
        self.model = first.model
        self._upload(dataset)
        self.gradients = Gradients(
            self.model, nn.functional.cross_entropy, precision=self.config.precision
        )
        self.step = 0
        starts = torch.stack([r.model.initial().to(self.device) for r in replicas])
        self.x_nd = aligned(starts.repeat_interleave(self.nodes, dim=0))
        self.x_nd.copy_(starts.repeat_interleave(self.nodes, dim=0))
        self.state = own_state(self.method, self.x_nd)
        self._probe(dataset.classes)
        self._mixers = [StackedMixer(r.topology, self.device, torch.float32) for r in replicas]
        self._rounds = RoundTables([r.topology for r in replicas])
        self._out = torch.empty_like(self.x_nd) if in_blocks(self.x_nd) else None
        self._epoch: tuple[int, dict[str, Tensor]] | None = None
        self._losses: list[Tensor] = []
        self._taken = 0
        self._fast: CapturedStep | None = None
        self._ahead = Ahead(self._tables)
        self.captures = self.config.capture and self.device.type == "cuda"
        self._outputs = self._evaluator()

    def _upload(self, dataset: Dataset) -> None:
        self.mean, self.std = (torch.as_tensor(s).to(self.device) for s in dataset.statistics())
        self.images, self.labels = on_device(dataset.train, self.device)
        self.test = on_device(dataset.test, self.device)

    def _probe(self, classes: int) -> None:
        """One node's gradient on two samples, so that a model that does not fit is refused now."""
        name = self.config.model
        images, _ = self.test
        samples = gather(images, torch.arange(2, device=self.device)[None], self.mean, self.std)
        labels = torch.zeros(samples.shape[:2], dtype=torch.int64, device=self.device)
        try:
            outputs = self.model.forward(self.x_nd[0], samples[0])
            self.gradients(self.x_nd[:1], samples, labels)
        except (RuntimeError, TypeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            shape = tuple(samples.shape[2:])
            raise InvalidArgument(
                "model", name, f"does not take images {shape}: {reason}"
            ) from None
        if outputs.shape != (len(samples[0]), classes):
            shape = tuple(outputs.shape[1:])
            raise InvalidArgument("model", name, f"gives {shape} instead of {classes} outputs")

    # -- steps -------------------------------------------------------------------------------

    def advance(self) -> None:
        """Make one step of all nodes."""
        if self.captures:
            self._advance_captured()
        else:
            at = self.method.gradient_point(self.x_nd, self.state)
            samples, labels = self._samples(self._inputs(self.step))
            losses, gradients = self.gradients(at, samples, labels, self._out)
            gradients = self._decayed(gradients, at)
            lr, mix = self._learning_rates(self.step), self._mix(self.step)
            self.x_nd, self.state = update(self.method, self.x_nd, gradients, self.state, lr, mix)
            self._losses.append(losses)
        self.step += 1

    def losses(self) -> Tensor:
        """The nodes' losses (steps, N) at the steps since this was last asked."""
        self._collect()
        found = torch.stack(self._losses).cpu() if self._losses else torch.empty(0, len(self.x_nd))
        self._losses = []
        return found

    @staticmethod
    def heed(told: list[int]) -> list[int]:
        """The signals to be obeyed now: all."""
        return told

    def _samples(self, planned: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        samples = gather(self.images, **planned, mean=self.mean, std=self.std)
        return samples, self.labels[planned["sample"]]

    def _decayed(self, gradients: Tensor, at: Tensor) -> Tensor:
        decay = self.config.weight_decay
        return gradients + decay * at if decay else gradients

    def _inputs(self, step: int) -> dict[str, Tensor]:
        """What is planned for a step, on the device; an epoch is planned and uploaded at once."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            plan = self._plan(epoch).items()
            self._epoch = epoch, {name: part.to(self.device) for name, part in plan}
        return {name: part[within] for name, part in self._epoch[1].items()}

    def _plan(self, epoch: int) -> dict[str, Tensor]:
        first = epoch * self.steps_per_epoch
        drawn: dict[tuple[int, float], EpochPlan] = {}  # replicas of one split see the same
        plans = []
        for r in self.replicas:
            split = r.config.seed, r.config.alpha
            if split not in drawn:
                drawn[split] = r.planner.steps(first, first + self.steps_per_epoch)
            plans.append(drawn[split])
        return {
            name: torch.as_tensor(np.concatenate(parts, axis=1))
            for name, parts in zip(EpochPlan._fields, zip(*plans, strict=True), strict=True)
            if parts[0] is not None
        }

    def _learning_rates(self, step: int) -> Any:
        """One number for a single run, or a column (N, 1)."""
        rates = [r.learning_rate(step) for r in self.replicas]
        if len(rates) == 1:
            return rates[0]
        return torch.tensor(rates, device=self.device).repeat_interleave(self.nodes)[:, None]

    def _mix(self, step: int) -> Callable[[Tensor], Tensor]:
        number = self.replicas[0].round_number(step)
        if number is None:
            return lambda x_nd: x_nd
        if self.method.centralized:
            return self._average
        if len(self.replicas) == 1:
            return self._mixers[0].round(number)
        numbers = [r.round_number(step) or 0 for r in self.replicas]
        rounds = [m.round(i) for m, i in zip(self._mixers, numbers, strict=True)]
        return lambda x_nd: torch.cat(
            [mix(x) for mix, x in zip(rounds, torch.split(x_nd, self.nodes), strict=True)]
        )

    def _average(self, x_nd: Tensor) -> Tensor:
        """The exact average of each replica."""
        if len(self.replicas) == 1:
            return average(x_nd)
        x = x_nd.view(-1, self.nodes, x_nd.shape[1])
        return x.mean(dim=1, keepdim=True).expand_as(x).flatten(0, 1)

    # -- the captured step -------------------------------------------------------------------

    def _advance_captured(self) -> None:
        epoch, within = divmod(self.step, self.steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            self._collect()
            tables = self._ahead.get(epoch)
            if self._fast is None:
                self._fast = self._capture(tables)
            self._fast.begin(tables, within)
            if epoch + 1 < self.config.epochs:
                self._ahead.begin(epoch + 1)  # not earlier: it would disturb a capture
            self._epoch = epoch, {}
            self._taken = within
        assert self._fast is not None
        x_nd, *state = self._fast()
        self.x_nd, self.state = x_nd, type(self.state)(*state)

    def _collect(self) -> None:
        """Fetch the losses of the captured steps before the next epoch's overwrite them."""
        if self._fast is None or self._epoch is None:
            return
        last = self.step - self._epoch[0] * self.steps_per_epoch
        self._losses.extend(self._fast.losses[self._taken : last].clone())
        self._taken = last

    def _tables(self, epoch: int) -> Tables:
        """Everything that the steps of an epoch read, in memory that a GPU can fetch from."""
        first = epoch * self.steps_per_epoch
        steps = range(first, first + self.steps_per_epoch)
        rates = [[r.learning_rate(step) for r in self.replicas] for step in steps]
        lr = torch.tensor(rates, dtype=torch.float32)
        found = {**self._plan(epoch), "lr": lr.repeat_interleave(self.nodes, dim=1)[..., None]}
        if not self.method.centralized:
            numbers = [[r.round_number(step) for r in self.replicas] for step in steps]
            found |= self._rounds.of(numbers)
        return {name: table.pin_memory() for name, table in found.items()}

    def _capture(self, tables: Tables) -> CapturedStep:
        """The step in two functions, each of which a compiler can take whole."""
        kind = type(self.state)
        planned = [name for name in EpochPlan._fields if name in tables]

        def losses(at: Tensor, tables: Tables, counter: Tensor) -> Tensor:
            now = {name: tables[name][counter].squeeze(0) for name in planned}
            return self.gradients.losses(at, *self._samples(now))

        def move(
            source: list[Tensor],
            target: list[Tensor],
            at: Tensor,
            gradients: Tensor,
            tables: Tables,
            counter: Tensor,
        ) -> None:
            x_nd, *state = source
            now = {name: table[counter].squeeze(0) for name, table in tables.items()}
            mix = self._average if self.method.centralized else self._rounds.mix(now)
            gradients = self._decayed(gradients, at)
            new, moved = self.method.step(x_nd, gradients, kind(*state), now["lr"], mix)
            for into, value in zip(target, (new, *moved), strict=True):
                into.copy_(value)

        fast = Compiled if self.config.compile else _as_it_is
        fast_losses, fast_move = fast(losses), fast(torch.no_grad()(move))

        def body(
            tables: Tables, counter: Tensor, source: list[Tensor], target: list[Tensor]
        ) -> Tensor:
            x_nd, *state = source
            at = self.method.gradient_point(x_nd, kind(*state))
            with products_in(self.config.precision):
                found, gradients = gradients_of(lambda x: fast_losses(x, tables, counter), at)
            with products_in("float32"):
                fast_move(source, target, at, gradients, tables, counter)
            return found

        return CapturedStep(body, tables, [self.x_nd, *self.state])

    # -- what came out -----------------------------------------------------------------------

    def rows(self, replica: int) -> slice:
        """Where a replica's nodes are among all."""
        return slice(replica * self.nodes, (replica + 1) * self.nodes)

    def evaluate(self, replica: int = 0, selection: Selection | None = None) -> dict[str, Accuracy]:
        """Accuracies of these nodes on these samples, by set; of all where nothing is selected."""
        own = self.replicas[replica]
        selection = selection or own.evaluated_last
        mine = self.rows(replica)
        state = type(self.state)(*(part[mine] for part in self.state))
        x_nd = self.method.gradient_point(self.x_nd[mine], state)
        nodes = torch.as_tensor(selection.nodes).to(self.device)
        chosen = x_nd if len(nodes) == len(x_nd) else x_nd[nodes]
        models = torch.cat([chosen, x_nd.mean(dim=0, keepdim=True)])
        # A compiler is to meet one shape only, so the last evaluation takes that of the others.
        usual = own.evaluated if self._compiles else selection
        together = len(usual.nodes) + 1
        found = {}
        for name, samples in selection.sets.items():
            images, labels = self.test if name == "test" else (self.images, self.labels)
            places = torch.as_tensor(samples).to(self.device)
            chunk = chunk_size(together, len(usual.sets[name]))
            asked = Questions(images, labels, places, self.mean, self.std)
            with products_in(self.config.precision):
                right = correct(self._outputs, models, asked, together=together, chunk=chunk)
            found[name] = Accuracy.of(right[:-1], right[-1], len(samples))
        return found

    def consensus_distance(self, replica: int = 0) -> float:
        """(1/n) Σ_i |x_i - mean|²."""
        return consensus_distance(self.x_nd[self.rows(replica)])

    def not_finite(self, replica: int = 0) -> tuple[str, int] | None:
        """What is no number any more, and at which node."""
        for name, tensor in self.tensors(replica).items():
            good = torch.isfinite(tensor).all(dim=1)
            if not good.all():
                return name, int(torch.argmin(good.int()))
        return None

    @property
    def _compiles(self) -> bool:
        return self.captures and self.config.compile

    def _evaluator(self) -> Outputs:
        """All models' outputs for the same samples, by the quickest way there is."""
        if self.gradients.loops_on(self.device):
            return one_by_one(self.gradients.model)
        outputs = Compiled(self.gradients.outputs) if self._compiles else self.gradients.outputs
        return lambda models, samples: outputs(models, samples.expand(len(models), *samples.shape))

    def facts(self, replica: int = 0) -> dict[str, Any]:
        """What is known before the first step and is no choice of the user's."""
        device = str(self.device)
        if self.device.type == "cuda":
            how = ["captured"] if self.captures else []
            how += ["compiled"] if self._compiles else []
            name = torch.cuda.get_device_name(self.device)
            device = ", ".join([name, *how, self.config.precision])
        else:
            count = torch.get_num_threads()
            device = f"{device}, {count} {'thread' if count == 1 else 'threads'}"
        return {**self.replicas[replica].facts(), "device": device}

    def bytes_sent(self, replica: int = 0) -> float:
        """What a node has sent so far, in the mean over nodes."""
        return self.replicas[replica].bytes_sent(self.step, self.x_nd.element_size())

    # -- checkpoints -------------------------------------------------------------------------

    def tensors(self, replica: int = 0) -> dict[str, Tensor]:
        """Everything that a resumed run needs besides the step."""
        mine = self.rows(replica)
        named = {f"state.{name}": getattr(self.state, name)[mine] for name in self.state._fields}
        return {"x": self.x_nd[mine], **named}

    def restore(self, tensors: dict[str, Tensor], step: int, replica: int = 0) -> None:
        """Continue from what `tensors` gave at this step."""
        for name, tensor in self.tensors(replica).items():
            tensor.copy_(tensors[name])
        self.step = step
        self._epoch = None


def _as_it_is(function: Any) -> Any:
    return function


def own_state(method: Any, x_nd: Tensor) -> Any:
    """The method's first state in buffers of its own (some methods begin with x itself)."""
    state = method.init(x_nd)
    buffers = [aligned(part) for part in state]
    for buffer, part in zip(buffers, state, strict=True):
        buffer.copy_(part)
    return type(state)(*buffers)
