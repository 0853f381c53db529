"""A replica: one run among those that an engine trains side by side."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from torch import nn

from basegraph.algorithms.catalog import ALGORITHMS, algorithm, parse_algorithm
from basegraph.algorithms.local_steps import communicates, round_index
from basegraph.algorithms.method import Method
from basegraph.algorithms.stability import (
    largest_stable_damping,
    require_stable,
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

OWN = ("seed", "lr", "alpha", "topology")
"""Fields in which replicas of one engine may differ."""


class Replica:
    """Everything about a run that does not depend on the device: data, topology, schedule."""

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

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.steps_per_epoch * self.config.epochs

    def beside(self) -> tuple[object, ...]:
        """What replicas must have in common to share an engine."""
        shared = {k: v for k, v in vars(self.config).items() if k not in OWN}
        form = tuple(zip(self.model.names, self.model.shapes, strict=True))
        return (*sorted(shared.items()), self.damping, self.steps_per_epoch, form)

    def facts(self) -> dict[str, Any]:
        """What is known before the first step and is no choice of the user's."""
        found = {
            "samples_per_node": int(self.planner.parts.shape[1]),
            "heterogeneity": round(self.heterogeneity, 4),
            "parameters": self.model.size,
            "steps_per_epoch": self.steps_per_epoch,
            "evaluation": self.evaluated.counts(),
            "last_evaluation": self.evaluated_last.counts(),
        }
        return found if self.damping is None else {**found, "damping": self.damping}

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

    def bytes_sent(self, steps: int, itemsize: int = 4) -> float:
        """What a node has sent in so many steps, in the mean over nodes."""
        n, size = self.config.nodes, self.model.size * itemsize
        if self.method.centralized:
            return steps * 2 * (n - 1) / n * size  # a ring all-reduce
        rounds = steps // self.config.local_steps
        period = self.topology.period
        if period is None:
            arcs = sum(len(self.topology.round(index).senders) for index in range(rounds))
        else:
            each = [len(self.topology.round(index).senders) for index in range(period)]
            arcs = rounds // period * sum(each) + sum(each[: rounds % period])
        return arcs / n * size * self.method.messages


def make_method(config: RunConfig, t: Topology) -> tuple[Method, float | None]:
    """The method with the options it has, refused where it is unstable; and D²'s damping."""
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
    """A checksum of the data and of the model's form, to tell another run's checkpoint."""
    found = zlib.crc32(dataset.train.images.tobytes())
    found = zlib.crc32(dataset.train.labels.tobytes(), found)
    form = [(name, tuple(shape)) for name, shape in zip(model.names, model.shapes, strict=True)]
    return f"{zlib.crc32(repr(form).encode(), found):08x}"
