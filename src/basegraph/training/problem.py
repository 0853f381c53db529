"""`Problem`: what a run computes, built from its configuration: data, model, topology, method."""

from __future__ import annotations

import zlib
from typing import NotRequired, TypedDict

import numpy as np
from torch import nn

from basegraph.algorithms.catalog import ALGORITHMS, algorithm, parse_algorithm
from basegraph.algorithms.method import Method
from basegraph.algorithms.stability import (
    communicates,
    largest_stable_damping,
    require_stable,
    round_index,
)
from basegraph.data.dataset import Dataset
from basegraph.data.partition import dirichlet, heterogeneity, hold_out
from basegraph.data.plan import Planner
from basegraph.errors import InvalidArgument
from basegraph.models.flat import FlatModel
from basegraph.topologies.catalog import topology
from basegraph.topologies.core.sequence import Topology
from basegraph.training.config import RunConfig
from basegraph.training.schedule import learning_rate
from basegraph.training.selection import everything, on_the_way
from basegraph.training.traffic import BytesSent


class Facts(TypedDict):
    """What is known of a run before its first step and is no choice of the user's."""

    samples_per_node: int
    heterogeneity: float
    """The mean total-variation distance between the labels of a node and of all."""
    parameters: int
    steps_per_epoch: int
    evaluation: dict[str, int]
    """How many nodes and samples an evaluation uses."""
    last_evaluation: dict[str, int]
    device: str
    damping: NotRequired[float]
    """τ of D²."""


class Problem:
    """What a run computes: everything about it that does not depend on the device.

    Args:
        config: What is asked.
        dataset: The data, which are split among the nodes.
        module: The model; all nodes begin with its parameters.

    """

    def __init__(self, config: RunConfig, dataset: Dataset, module: nn.Module) -> None:
        self.config = config
        self.topology: Topology = topology(config.topology, config.nodes)
        self.method, self.damping = make_method(config, self.topology)
        self.model = FlatModel(module)
        validation, rest = hold_out(len(dataset.train), config.validation, config.seed)
        labels = dataset.train.labels[rest]
        parts = dirichlet(labels, config.nodes, config.alpha, config.seed, config.split_order)
        sets = {"test": np.arange(len(dataset.test)), "validation": validation}
        self.evaluated_last = everything(config.nodes, sets)
        self.evaluated = on_the_way(config, self.evaluated_last, parts.size)
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
        self.fingerprint = fingerprint(dataset, self.model)
        vector = self.model.initial()
        self._bytes_sent = BytesSent(
            self.topology, self.method, config.local_steps, len(vector) * vector.element_size()
        )

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.steps_per_epoch * self.config.epochs

    @property
    def sample_order(self) -> tuple[int, float]:
        """Equal for runs whose nodes see the same samples in the same order."""
        return self.config.seed, self.config.alpha

    def shared(self) -> tuple[object, ...]:
        """What runs must have in common to be trained by one engine."""
        shared = self.config.shared()
        form = tuple(zip(self.model.names, self.model.shapes, strict=True))
        return (*sorted(shared.items()), self.damping, self.steps_per_epoch, form)

    def facts(self, hardware: str) -> Facts:
        """What is known before the first step and is no choice of the user's."""
        facts: Facts = {
            "samples_per_node": int(self.planner.parts.shape[1]),
            "heterogeneity": round(self.heterogeneity, 4),
            "parameters": self.model.size,
            "steps_per_epoch": self.steps_per_epoch,
            "evaluation": self.evaluated.counts(),
            "last_evaluation": self.evaluated_last.counts(),
            "device": hardware,
        }
        if self.damping is not None:
            facts["damping"] = self.damping
        return facts

    def learning_rate(self, step: int) -> float:
        """η of a step."""
        return learning_rate(
            step,
            self.steps_per_epoch,
            self.config.epochs,
            peak=self.config.lr,
            warmup=self.config.warmup,
            schedule=self.config.schedule,
        )

    def round_number(self, step: int) -> int | None:
        """Which round of the topology a step mixes with, below the period if there is one."""
        if not communicates(step, self.config.local_steps):
            return None
        index = round_index(step, self.config.local_steps)
        period = self.topology.period
        return index if period is None else index % period

    def bytes_sent(self, step: int) -> float:
        """What a node has sent in so many steps, in the mean over nodes."""
        return self._bytes_sent.by(step)


def make_method(config: RunConfig, t: Topology) -> tuple[Method, float | None]:
    """The method of a run, with the options that it has.

    Args:
        config: What is asked.
        t: The topology, on which the method must be stable unless the configuration allows it.

    Returns:
        The method, and τ where it is D².

    Raises:
        InvalidArgument: If the method does not have an option that is asked for.
        Unstable: If the method is unstable on the topology.

    """
    name, options = parse_algorithm(config.algorithm)
    known = ALGORITHMS[name].options
    for field in ("momentum", "nesterov"):
        if field in known:
            options[field] = getattr(config, field)
        elif field == "nesterov" and config.nesterov:
            raise InvalidArgument("nesterov", True, f"{name} has no such option")
    damping = config.damping_share()
    if "damping" in known:
        damping = largest_stable_damping(t, config.local_steps) if damping is None else damping
        options["damping"] = damping
    elif config.damping != "none":
        raise InvalidArgument("damping", config.damping, f"{name} has no such option")
    method = algorithm(name, **options)
    if method.centralized and config.local_steps > 1:
        raise InvalidArgument(
            "local_steps", config.local_steps, f"{method.name} averages gradients at every step"
        )
    if not config.allow_unstable:
        require_stable(method, t, config.local_steps)
    return method, damping if "damping" in known else None


def fingerprint(dataset: Dataset, model: FlatModel) -> str:
    """A checksum of the data and of the model's form, to recognize another run's checkpoint."""
    checksum = zlib.crc32(dataset.train.images.tobytes())
    checksum = zlib.crc32(dataset.train.labels.tobytes(), checksum)
    form = [(name, tuple(shape)) for name, shape in zip(model.names, model.shapes, strict=True)]
    return f"{zlib.crc32(repr(form).encode(), checksum):08x}"
