"""`Problem`: what a run computes, built from its configuration: data, model, topology, method."""

from __future__ import annotations

import zlib
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
import torch
from torch import nn

from basegraph.algorithms._stability import (
    largest_stable_damping,
    require_stable,
)
from basegraph.algorithms.catalog import ALGORITHMS, algorithm, parse_algorithm
from basegraph.algorithms.local_steps import communicates, round_index
from basegraph.algorithms.method import Method, require_same_vectors
from basegraph.algorithms.outer import outer_method, with_outer
from basegraph.data.dataset import OWN, Dataset
from basegraph.data.partition import heterogeneity, hold_out, require_domains, split
from basegraph.data.plan import SamplePlanner
from basegraph.errors import InvalidArgument
from basegraph.models.flat import FlatModel
from basegraph.models.gradients import Loss
from basegraph.topologies.catalog import topology
from basegraph.topologies.core._digest import digest
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence
from basegraph.training.config import DEFAULTS, RunConfig
from basegraph.training.modules import refuse_unknown_tokens
from basegraph.training.schedule import learning_rate
from basegraph.training.selection import at_the_end, everything, on_the_way
from basegraph.training.tokens import TokenScores, default_loss, measure_of
from basegraph.training.traffic import BytesSent
from basegraph.wires.catalog import require_model_alone, require_wire, wire
from basegraph.wires.contract import Wire


class Facts(TypedDict):
    """What is known of a run before its first step and is no choice of the user's."""

    samples_per_node: int
    heterogeneity: float
    """The mean total-variation distance between the labels (or domains) of a node and of all."""
    parameters: int
    steps_per_epoch: int
    evaluation: dict[str, int]
    """How many nodes and samples an evaluation uses."""
    last_evaluation: dict[str, int]
    device: str
    context: NotRequired[int]
    """Tokens of a sample, where it is a window of tokens."""
    domains: NotRequired[int]
    """Of a text: how many files."""
    tokenizer: NotRequired[str]
    """The checksum of the tokenizer's file."""
    damping: NotRequired[float]
    """τ of D²."""
    loss: NotRequired[str]
    """The name of a loss that was passed from Python."""
    rounds: NotRequired[str]
    """A checksum of the arcs and weights of a topology that was passed from Python."""


class Own(NamedTuple):
    """What was passed from Python in place of what a configuration can name."""

    topology: AnyTopology | None = None
    method: Method | None = None
    loss: Loss | None = None

    def require_all(self, config: RunConfig) -> None:
        """Refuse a configuration that names something which was passed then and is not now."""
        for name, given in (("topology", self.topology), ("algorithm", self.method)):
            recorded = getattr(config, name)
            if given is None and recorded.startswith(OWN):
                raise InvalidArgument(
                    name, recorded, "was passed from Python: pass it again to train()"
                )


class Problem:
    """What a run computes: everything about it that does not depend on the device.

    Args:
        config: What is asked.
        dataset: The data, which are split among the nodes.
        module: The model; all nodes begin with its parameters.
        own: What is used in place of what the configuration names.

    """

    def __init__(
        self, config: RunConfig, dataset: Dataset, module: nn.Module, own: Own | None = None
    ) -> None:
        self.config = config
        self.own = own = own or Own()
        own.require_all(config)
        self.topology = _topology(config, own.topology)
        self.method, self.damping = make_method(config, self.topology, own.method)
        self.model = FlatModel(module)
        refuse_unknown_tokens(dataset, module)
        self.loss = own.loss or default_loss(dataset)
        self.measure = measure_of(dataset, own.loss)
        validation, rest = hold_out(len(dataset.train), config.validation, config.seed)
        labels_of_all = dataset.training_groups()
        if config.split == "domains":
            require_domains(config.nodes, labels_of_all, rest)
        labels = labels_of_all[rest]
        parts = split(
            labels,
            config.nodes,
            config.split,
            alpha=config.alpha,
            seed=config.seed,
            order=config.split_order,
        )
        self.tokens = TokenScores.of(dataset, own.loss)
        self.samples_per_node = len(rest) // config.nodes
        sets = {"test": np.arange(len(dataset.test)), "validation": validation}
        groups = {} if self.tokens is None else self.tokens.test_groups()
        whole = everything(config.nodes, sets, groups)
        self.evaluated_last = at_the_end(config, whole)
        self.steps_per_epoch = config.epoch_steps or -(-self.samples_per_node // config.batch)
        self.evaluated = on_the_way(
            config,
            whole,
            self._samples_per_epoch(),
            predictions=self.tokens.context if self.tokens else 1,
        )
        self.heterogeneity = heterogeneity(labels, parts)
        augmentations = config.augmentations()
        if augmentations and not dataset.has_images:
            raise InvalidArgument("augment", config.augment, "is for images")
        for name in ("normalize", "padding"):
            if getattr(config, name) != DEFAULTS[name] and not dataset.has_images:
                raise InvalidArgument(name, getattr(config, name), "is for images")
        height, width = dataset.shape[1:] if dataset.has_images else (1, 1)
        self.planner = SamplePlanner(
            rest[parts],
            config.batch,
            config.seed,
            image=(height, width),
            augmentations=augmentations,
        )
        self.fingerprint = fingerprint(dataset, self.model, own)
        chosen = _wire(config, self.topology, self.method)
        self._bytes_sent = BytesSent(
            *(self.topology, self.method, config.local_steps),
            vector_bytes=chosen.message_bytes(self.model.size),
            first_bytes=4 * self.model.size if chosen.links else None,
        )

    def _samples_per_epoch(self) -> int:
        """Samples that all nodes together are trained on in an epoch."""
        drawn = self.config.epoch_steps * self.config.batch or self.samples_per_node
        return drawn * self.config.nodes

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
            "samples_per_node": self.samples_per_node,
            "heterogeneity": round(self.heterogeneity, 4),
            "parameters": self.model.size,
            "steps_per_epoch": self.steps_per_epoch,
            "evaluation": self.evaluated.counts(),
            "last_evaluation": self.evaluated_last.counts(),
            "device": hardware,
        }
        if self.tokens is not None:
            facts["context"] = self.tokens.context
            if self.tokens.text is not None:
                facts["domains"] = len(self.tokens.text.domains)
                if self.tokens.text.tokenizer_checksum:
                    facts["tokenizer"] = self.tokens.text.tokenizer_checksum
        if self.damping is not None:
            facts["damping"] = self.damping
        if self.own.loss is not None:
            facts["loss"] = name_of(self.own.loss)
        if self.own.topology is not None:
            facts["rounds"] = digest(self.own.topology)
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
            lowest=self.config.lr_min,
            warmup_start=self.config.warmup_start,
            changes=self.config.lr_changes,
            cosine_epochs=self.config.cosine_epochs,
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

    def tokens_seen(self, step: int) -> int | None:
        """Tokens that all nodes have been trained on in so many steps; None: samples are others."""
        if self.tokens is None:
            return None
        return step * self.config.nodes * self.config.batch * self.tokens.context


def _topology(config: RunConfig, own: AnyTopology | None) -> AnyTopology:
    """The topology that the configuration names, or one's own."""
    if own is None:
        built: AnyTopology = topology(config.topology, config.nodes)
        return built
    if own.n != config.nodes:
        raise InvalidArgument("topology", own.spec, f"is for n={own.n}; nodes={config.nodes}")
    return own


def _wire(config: RunConfig, t: AnyTopology, method: Method) -> Wire:
    """How models are sent, refused where it does not go with the topology and the method."""
    chosen = wire(config.wire)
    require_wire(chosen, t, method)
    if not chosen.keeps(torch.float32):
        require_model_alone(chosen, method)
    return chosen


def make_method(
    config: RunConfig, t: AnyTopology, own: Method | None = None
) -> tuple[Method, float | None]:
    """The method of a run, with the options that it has.

    Args:
        config: What is asked.
        t: The topology, on which the method must be stable unless the configuration allows it.
        own: A method that is used in place of the one that the configuration names.

    Returns:
        The method, and τ where it is D².

    Raises:
        InvalidArgument: If the method does not have an option that is asked for, or another number
            of vectors per node than the topology.
        Unstable: If the method is unstable on the topology.

    """
    if own is not None:
        return _usable(own, config, t), None
    name, options = parse_algorithm(config.algorithm)
    known = ALGORITHMS[name].options
    for field in ("momentum", "nesterov"):
        given = getattr(config, field)
        if field in known:
            options[field] = given
        elif given and given != DEFAULTS[field]:  # a method without momentum has β = 0
            others = "; it has beta1" if "beta1" in known else ""
            raise InvalidArgument(field, given, f"{name} has no such option{others}")
    damping = config.damping_share()
    if "damping" in known:
        require_same_vectors(algorithm(name), t)
        assert not isinstance(t, TwoStateSequence)
        damping = largest_stable_damping(t, config.local_steps) if damping is None else damping
        options["damping"] = damping
    elif config.damping != "none":
        raise InvalidArgument("damping", config.damping, f"{name} has no such option")
    method = _usable(algorithm(name, **options), config, t)
    return method, damping if "damping" in known else None


def within_outer(method: Method, config: RunConfig) -> Method:
    """The method within the outer one that the configuration names, if it names one."""
    if config.outer == "none":
        return method
    return with_outer(method, outer_method(config.outer), config.outer_lr)


def _usable(method: Method, config: RunConfig, t: AnyTopology) -> Method:
    """The method, refused where it does not go with the configuration and the topology."""
    method = within_outer(method, config)
    require_same_vectors(method, t)
    if method.centralized and method.outer is None and config.local_steps > 1:
        raise InvalidArgument(
            "local_steps", config.local_steps, f"{method.name} averages gradients at every step"
        )
    if not config.allow_unstable:
        try:
            require_stable(method, t, config.local_steps)
        except (AttributeError, TypeError) as error:
            raise InvalidArgument(
                "algorithm",
                method.name,
                f"needs operators that numpy arrays have too, or linear=False: {error}",
            ) from None
    return method


def fingerprint(dataset: Dataset, model: FlatModel, own: Own) -> str:
    """Checksums of the training data with the model's form and a topology and loss of one's own,
    and of the test data.

    It identifies the run of a checkpoint.
    """
    checksum = dataset.train.checksum
    form = [(name, tuple(shape)) for name, shape in zip(model.names, model.shapes, strict=True)]
    checksum = zlib.crc32(repr(form).encode(), checksum)
    for part in (own.topology and digest(own.topology), own.loss and name_of(own.loss)):
        if part:
            checksum = zlib.crc32(part.encode(), checksum)
    return f"{checksum:08x}-{dataset.test.checksum:08x}"


def same_fingerprint(saved: str, mine: str) -> bool:
    """Whether a checkpoint is of this run; earlier versions did not look at the test data.

    >>> same_fingerprint("12-34", "12-34"), same_fingerprint("12", "12-34")
    (True, True)
    >>> same_fingerprint("12-56", "12-34")
    False
    """
    return saved in (mine, mine.partition("-")[0])


def name_of(loss: Loss) -> str:
    """What a loss is called in a run's record."""
    return getattr(loss, "__name__", type(loss).__name__)
