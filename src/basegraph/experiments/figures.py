"""The paper's training figures: what each compares, and the settings of its public code."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from basegraph.algorithms.catalog import ALGORITHMS, parse_algorithm
from basegraph.errors import InvalidArgument
from basegraph.experiments.grid import topology_of_list
from basegraph.specs import spec_of
from basegraph.training.config import DEFAULTS, RunConfig

BASES = ("base:k=1", "base:k=2", "base:k=3", "base:k=4")
DYNAMIC = ("one-peer-u-equidyn", "one-peer-d-equidyn")
STATIC = tuple(f"{side}-equistatic:degree={degree}" for side in "ud" for degree in (2, 4))
EXISTING = ("exponential", "one-peer-exponential", "ring", "torus", *DYNAMIC)
SETTINGS = ("published", "ours")
PRESET_FIELDS = (
    "normalize",
    "padding",
    "lr_min",
    "lr_changes",
    "cosine_epochs",
    "warmup_start",
)
"""What settings decide besides options of the model."""


class Figure(NamedTuple):
    """What a figure compares."""

    alphas: tuple[float, ...]
    nodes: tuple[int, ...]
    topologies: tuple[str, ...]
    methods: tuple[str, ...] = ("dsgdm",)
    dataset: str = "cifar10"
    model: str = ""
    """Empty: the paper's for the dataset."""
    settings: str = "published"
    """Of `SETTINGS`."""
    evaluates_all: bool = False
    """Whether evaluations on the way use all nodes and samples, as the last one does."""


FIGURES = {
    "dsgd": Figure((10.0, 0.1), (25,), (*BASES, *EXISTING)),
    "nodes": Figure((0.1,), (21, 22, 23, 24, 25), (*BASES, "exponential", "one-peer-exponential")),
    "methods": Figure(
        (0.1,),
        (25,),
        (*BASES, *EXISTING),
        (
            "d2:damping=auto",
            "d2-published",
            "qg-dsgdm",
            "qg-dsgdm-published",
            "gradient-tracking",
        ),
    ),
    "equistatic": Figure((10.0, 0.1), (25,), (*BASES, *STATIC)),
    "sixteen": Figure((10.0, 0.1), (16,), ("base:k=1", "base:k=3", *EXISTING)),
    "resnet": Figure((10.0, 0.1), (25,), (*BASES, *EXISTING), model="resnet18"),
    "mnist": Figure(
        (0.1, 10.0),
        (25,),
        (*BASES, "one-peer-exponential", "exponential", "ring", "torus"),
        dataset="mnist",
        settings="ours",
        evaluates_all=True,
    ),
}
"""The paper's training figures, Fig. 7 and the ones of its appendices, and a quick one on MNIST."""


def plain(figure: Figure) -> Figure:
    """The figure with one name for each topology and method, however they are written.

    Topologies have their own spec, but for a seed of 0; methods the options that change them.

    Example:
        >>> written = ("base", "base:k=1", "d-equistatic:seed=0,degree=2")
        >>> plain(Figure((0.1,), (25,), written, ("dsgdm:momentum=0.9", "dsgdm"))).methods
        ('dsgdm',)
        >>> plain(Figure((0.1,), (25,), written)).topologies
        ('base:k=1', 'd-equistatic:degree=2')

    Raises:
        InvalidArgument: If a topology or a method refuses its options.

    """
    built = [topology_of_list(spec, figure.nodes[0]) for spec in figure.topologies]
    names = [re.sub("[:,]seed=0$", "", t.spec) for t in built]
    methods = [_plain_method(spec) for spec in figure.methods]
    return figure._replace(
        topologies=tuple(dict.fromkeys(names)), methods=tuple(dict.fromkeys(methods))
    )


def _plain_method(spec: str) -> str:
    """A method's spec without options that have their defaults."""
    try:
        RunConfig(algorithm=spec)
    except InvalidArgument as error:
        raise InvalidArgument("methods", spec, str(error)) from None
    name, written = parse_algorithm(spec)
    defaults = ALGORITHMS[name].options
    return spec_of(
        name,
        {
            option: value
            for option, value in sorted(written.items())
            if value not in (defaults[option], DEFAULTS.get(option))
        },
    )


def paper_model(dataset: str) -> str:
    """The paper's model for a dataset; an MLP for the digits that come with basegraph."""
    if dataset == "digits":
        return "mlp"
    return "lenet" if dataset in ("mnist", "fashion-mnist") else "vgg11"


def paper_epochs(dataset: str) -> int:
    """The paper's number of epochs for a dataset."""
    return 200 if paper_model(dataset) == "lenet" else 500


def preset(name: str, dataset: str, model: str, epochs: int) -> dict[str, Any]:
    """The fields of a preset, with the model's options; a model that has options keeps them.

    Example:
        >>> preset("published", "cifar10", "vgg11", 500)["model"]
        'vgg11:groups=8'
        >>> preset("ours", "cifar10", "vgg11", 500)
        {'model': 'vgg11'}

    Args:
        name: `published` (the paper's public code) or `ours` (the defaults).
        dataset: Its name.
        model: A model for images.
        epochs: Of a run. The published cosine is as long, though it begins after the warm-up.

    Raises:
        InvalidArgument: If there is no such preset, or the dataset is a text.

    """
    if dataset.partition(":")[0] == "text":
        raise InvalidArgument("dataset", dataset, "must be images, not a text")
    if name not in SETTINGS:
        raise InvalidArgument("settings", name, f"must be {' or '.join(SETTINGS)}")
    if name == "ours":
        return {"model": model}
    options = {"lenet": ":order=published", "vgg11": ":groups=8", "resnet18": ":groups=8"}
    gray = dataset in ("digits", "mnist", "fashion-mnist")
    return {
        "model": model + options.get(model, ""),
        "normalize": "none" if gray else "half",
        "padding": "black",
        "lr_min": 1e-4,
        "lr_changes": "epoch",
        "cosine_epochs": epochs,
        "warmup_start": 5e-5,
    }
