"""The stacked engine: n virtual nodes in one process, step by step.

Shape legend: x_nd nodes × parameters; samples (n, B, C, H, W); labels (n, B).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from basegraph.algorithms.catalog import ALGORITHMS, algorithm
from basegraph.algorithms.method import Method
from basegraph.algorithms.stability import (
    communicates,
    largest_stable_damping,
    require_stable,
    round_index,
)
from basegraph.data.augment import gather
from basegraph.data.dataset import Dataset
from basegraph.data.partition import dirichlet, heterogeneity, hold_out
from basegraph.data.plan import Planner
from basegraph.errors import InvalidArgument
from basegraph.mixing.stacked import StackedMixer, average
from basegraph.models.flat import FlatModel, Gradients
from basegraph.topology.catalog import topology
from basegraph.topology.sequence import Topology
from basegraph.training.captured import CapturedStep, RoundTensors
from basegraph.training.config import RunConfig
from basegraph.training.evaluate import Accuracy, accuracy
from basegraph.training.schedule import learning_rate
from basegraph.training.update import in_blocks, update


class StackedEngine:
    """Holds the nodes' models and the data on a device and makes steps."""

    def __init__(self, config: RunConfig, dataset: Dataset, module: nn.Module) -> None:
        self.config = config
        self.device = pick_device(config.device)
        self.topology: Topology = topology(config.topology, config.nodes)
        self.method, self.damping = make_method(config, self.topology)
        self.model = FlatModel(module.to(self.device))
        validation, rest = hold_out(len(dataset.train), config.validation, config.seed)
        labels = dataset.train.labels[rest]
        parts = dirichlet(labels, config.nodes, config.alpha, config.seed)
        self.heterogeneity = heterogeneity(labels, parts)
        _, height, width = dataset.shape
        self.planner = Planner(
            rest[parts],
            config.batch,
            config.seed,
            image=(height, width),
            augmentations=config.augmentations(),
        )
        self.steps_per_epoch = max(1, -(-parts.shape[1] // config.batch))
        self._upload(dataset, validation)
        self.fingerprint = fingerprint(dataset, self.model)
        self.mixer = StackedMixer(self.topology, self.device, torch.float32)
        self.gradients = Gradients(self.model, nn.functional.cross_entropy)
        self.step = 0
        self.x_nd = self.model.initial().to(self.device).repeat(config.nodes, 1)
        self.state = own_state(self.method, self.x_nd)
        self._gradients = torch.empty_like(self.x_nd) if in_blocks(self.x_nd) else None
        self._planned: tuple[int, dict[str, Tensor]] | None = None
        self._graph: CapturedStep | None = None
        self._rounds: dict[int, tuple[Tensor, ...]] = {}
        self._probe(dataset.classes)

    def _upload(self, dataset: Dataset, validation: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        mean, std = (torch.as_tensor(s).to(self.device) for s in dataset.statistics())
        self.mean, self.std = mean, std
        self.images = torch.as_tensor(dataset.train.images).to(self.device)
        self.labels = torch.as_tensor(dataset.train.labels).to(self.device)
        held = dataset.train.take(validation)
        self.evaluated = {
            name: (
                gather(torch.as_tensor(split.images).to(self.device), _all(split), mean, std),
                torch.as_tensor(split.labels).to(self.device),
            )
            for name, split in (("test", dataset.test), ("validation", held))
            if len(split)
        }

    def _probe(self, classes: int) -> None:
        """One node's gradient on two samples, so that a model that does not fit is refused now."""
        name = self.config.model
        x_nd, samples = self.x_nd[:1], self.evaluated["test"][0][None, :2]
        labels = torch.zeros(samples.shape[:2], dtype=torch.int64, device=self.device)
        try:
            outputs = self.model.forward(x_nd[0], samples[0])
            self.gradients(x_nd, samples, labels)
        except (RuntimeError, TypeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            shape = tuple(samples.shape[2:])
            raise InvalidArgument(
                "model", name, f"does not take images {shape}: {reason}"
            ) from None
        if outputs.shape != (len(samples[0]), classes):
            shape = tuple(outputs.shape[1:])
            raise InvalidArgument("model", name, f"gives {shape} instead of {classes} outputs")

    def facts(self) -> dict[str, Any]:
        """What is known before the first step and is no choice of the user's."""
        found = {
            "samples_per_node": int(self.planner.parts.shape[1]),
            "heterogeneity": round(self.heterogeneity, 4),
            "parameters": self.model.size,
            "steps_per_epoch": self.steps_per_epoch,
            "device": str(self.device),
        }
        return found if self.damping is None else {**found, "damping": self.damping}

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.steps_per_epoch * self.config.epochs

    def advance(self) -> Tensor:
        """Make one step; returns the nodes' losses (n,) before it."""
        planned, lr = self._inputs(self.step), self._learning_rate(self.step)
        if self.config.capture and self.device.type == "cuda":
            losses = self._captured()(planned, lr, self._round_values(self.step))
        else:
            losses = self._compute(planned, lr, self._mix(self.step))
        self.step += 1
        return losses

    def _compute(self, planned: dict[str, Tensor], lr: Any, mix: Callable[..., Any]) -> Tensor:
        samples = gather(self.images, **planned, mean=self.mean, std=self.std)
        at = self.method.gradient_point(self.x_nd, self.state)
        labels = self.labels[planned["sample"]]
        losses, gradients = self.gradients(at, samples, labels, self._gradients)
        if self.config.weight_decay:
            gradients = gradients + self.config.weight_decay * at
        self.x_nd, self.state = update(self.method, self.x_nd, gradients, self.state, lr, mix)
        return losses

    def _learning_rate(self, step: int) -> float:
        return learning_rate(
            step,
            self.steps_per_epoch,
            self.config.epochs,
            peak=self.config.lr,
            warmup=self.config.warmup,
            schedule=self.config.schedule,
        )

    # -- the captured step -------------------------------------------------------------------

    def _captured(self) -> CapturedStep:
        if self._graph is None:
            rounds = None
            if not self.method.centralized:
                one_peer = self.topology.max_degree <= 1
                rounds = RoundTensors(self.config.nodes, one_peer, self.device)

            def body(planned: dict[str, Tensor], lr: Tensor, mix: Callable[..., Any]) -> Tensor:
                x_nd, state = self.x_nd, self.state
                losses = self._compute(planned, lr, mix)
                # The state first: D²'s is the old x, which must not be overwritten before.
                for target, value in zip((*state, x_nd), (*self.state, self.x_nd), strict=True):
                    if target is not value:
                        target.copy_(value)
                self.x_nd, self.state = x_nd, state
                return losses

            moved = [self.x_nd, *self.state]
            self._graph = CapturedStep(body, self._inputs(self.step), moved, rounds, self.device)
        return self._graph

    def _round_values(self, step: int) -> tuple[Tensor, ...] | None:
        rounds = self._captured().rounds
        if rounds is None:
            return None
        n = self.config.nodes
        if not communicates(step, self.config.local_steps):
            return rounds.values(None, n, self.device)
        index = round_index(step, self.config.local_steps)
        period = self.topology.period
        if period is None:
            return rounds.values(self.topology.round(index), n, self.device)
        phase = index % period
        if phase not in self._rounds:
            self._rounds[phase] = rounds.values(self.topology.round(phase), n, self.device)
        return self._rounds[phase]

    def evaluate(self) -> dict[str, Accuracy]:
        """Accuracies on the test set and on the validation set, where there is one."""
        x_nd = self.method.gradient_point(self.x_nd, self.state)
        return {
            name: accuracy(self.model, x_nd, samples, labels)
            for name, (samples, labels) in self.evaluated.items()
        }

    def bytes_sent(self) -> float:
        """What a node has sent so far, in the mean over nodes."""
        rounds = self.step // self.config.local_steps
        size = self.x_nd.shape[1] * self.x_nd.element_size()
        n = self.config.nodes
        if self.method.centralized:
            return self.step * 2 * (n - 1) / n * size  # a ring all-reduce
        period = self.topology.period
        if period is None:
            arcs = sum(len(self.topology.round(index).senders) for index in range(rounds))
        else:
            each = [len(self.topology.round(index).senders) for index in range(period)]
            arcs = rounds // period * sum(each) + sum(each[: rounds % period])
        return arcs / n * size * self.method.messages

    # -- checkpoints -------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs besides the step."""
        named = {f"state.{name}": getattr(self.state, name) for name in self.state._fields}
        return {"x": self.x_nd, **named}

    def restore(self, tensors: dict[str, Tensor], step: int) -> None:
        """Continue from what `tensors` gave at this step."""
        expected = {name: tuple(t.shape) for name, t in self.tensors().items()}
        found = {name: tuple(t.shape) for name, t in tensors.items()}
        if expected != found:
            raise InvalidArgument("checkpoint", found, f"must hold {expected}")
        self.x_nd = tensors["x"].to(self.device)
        names = self.state._fields
        self.state = type(self.state)(*(tensors[f"state.{n}"].to(self.device) for n in names))
        self.step = step
        self._graph = None  # it holds on to the tensors that were there before

    # -- one step's ingredients --------------------------------------------------------------

    def _inputs(self, step: int) -> dict[str, Tensor]:
        """What is planned for a step, on the device; an epoch is planned and uploaded at once."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if self._planned is None or self._planned[0] != epoch:
            first = epoch * self.steps_per_epoch
            plan = self.planner.steps(first, first + self.steps_per_epoch)._asdict()
            uploaded = {
                name: torch.as_tensor(part).to(self.device)
                for name, part in plan.items()
                if part is not None
            }
            self._planned = epoch, uploaded
        return {name: part[within] for name, part in self._planned[1].items()}

    def _mix(self, step: int) -> Callable[[Tensor], Tensor]:
        if not communicates(step, self.config.local_steps):
            return lambda x_nd: x_nd
        if self.method.centralized:
            return average
        return self.mixer.round(round_index(step, self.config.local_steps))


def own_state(method: Method, x_nd: Tensor) -> Any:
    """The method's first state in buffers of its own (some methods begin with x itself)."""
    state = method.init(x_nd)
    return type(state)(*(part.clone() for part in state))


def make_method(config: RunConfig, t: Topology) -> tuple[Method, float | None]:
    """The method with the options it has, refused where it is unstable; and D²'s damping."""
    options: dict[str, object] = {}
    known = ALGORITHMS[config.algorithm].options
    for name in ("momentum", "nesterov"):
        if name in known:
            options[name] = getattr(config, name)
        elif name == "nesterov" and config.nesterov:
            raise InvalidArgument("nesterov", True, f"{config.algorithm} has no such option")
    damping = config.damping_share()
    if "damping" in known:
        damping = largest_stable_damping(t, config.local_steps) if damping is None else damping
        options["damping"] = damping
    elif config.damping != "none":
        raise InvalidArgument("damping", config.damping, f"{config.algorithm} has no such option")
    method = algorithm(config.algorithm, **options)
    if method.centralized and config.local_steps > 1:
        raise InvalidArgument(
            "local_steps", config.local_steps, f"{method.name} averages gradients at every step"
        )
    if not config.allow_unstable:
        require_stable(method, t, config.local_steps)
    return method, damping if "damping" in known else None


def pick_device(name: str) -> torch.device:
    """The device asked for, refused if it is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not name.startswith("cuda"):
        return torch.device(name)
    index = name.partition(":")[2] or "0"
    if not index.isdigit() or int(index) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise InvalidArgument("device", name, f"there are {count} CUDA devices here; or use cpu")
    return torch.device(name)


def fingerprint(dataset: Dataset, model: FlatModel) -> str:
    """A checksum of the data and of the model's form, to tell another run's checkpoint."""
    found = zlib.crc32(dataset.train.images.tobytes())
    found = zlib.crc32(dataset.train.labels.tobytes(), found)
    form = [(name, tuple(shape)) for name, shape in zip(model.names, model.shapes, strict=True)]
    return f"{zlib.crc32(repr(form).encode(), found):08x}"


def _all(split: Any) -> Tensor:
    return torch.arange(len(split))
