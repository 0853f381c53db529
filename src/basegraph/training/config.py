"""`RunConfig`: everything that determines a run, checked before anything happens.

What is to be known about a field stands at the field: its line of help, what it accepts, and
whether it may change when a run is resumed, differ between runs that are trained together, or
differ between the nodes of a job.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from basegraph.algorithms.catalog import algorithm, parse_algorithm
from basegraph.algorithms.outer import OUTER_LR, outer_method
from basegraph.data.dataset import OWN
from basegraph.data.partition import SPLIT_ORDERS, SPLITS
from basegraph.data.plan import NORMALIZATIONS, PADDINGS
from basegraph.errors import InvalidArgument
from basegraph.extras import optional_imports
from basegraph.specs import spec_of
from basegraph.topologies.catalog import parse_spec
from basegraph.training.settings import Setting, require_accepted, setting, typed

MOST_THREADS = 2**10
AUGMENTATIONS = ("crop", "flip", "erase")
ABOVE_ZERO = ("above 0", lambda v: v > 0)
FROM_ZERO = ("0 or above", lambda v: v >= 0)
BELOW_ONE = ("in [0, 1)", lambda v: 0 <= v < 1)
NEEDS = {
    "alpha": ("split", "dirichlet"),
    "lr_min": ("schedule", "cosine"),
    "cosine_epochs": ("schedule", "cosine"),
}
"""Fields that have an effect with one value of another field only; refused with other values."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The fields are the flags of `basegraph train` and the keys of its TOML file.

    Example:
        >>> RunConfig(nodes=8, algorithm="dsgdm:momentum=0.5").momentum
        0.5
        >>> RunConfig(nodes=0)
        Traceback (most recent call last):
            ...
        basegraph.errors.InvalidArgument: nodes=0: must be an integer ≥ 1

    """

    topology: str = setting("base:k=1", "A catalogue name with its options.", stacks=True)
    nodes: int = setting(25, "Number of nodes n.", low=1)
    algorithm: str = setting(
        "dsgdm", "A method of the catalogue with its options, such as d2:damping=0.5."
    )
    momentum: float = setting(
        0.9, "β, for the methods that have momentum.", option=True, number=BELOW_ONE
    )
    nesterov: bool = setting(
        False, "Nesterov's momentum, for the methods that have it.", option=True
    )
    damping: str = setting(
        "none",
        "τ of D²: none, auto (the largest stable one), or a number in (0, 1].",
        option=True,
    )
    weight_decay: float = setting(
        0.0,
        "λ: λx is added to the gradient; decoupled for adamw, whose biases and norms do not decay.",
        number=FROM_ZERO,
    )
    clip: float = setting(
        0.0,
        "Largest gradient norm per node; longer gradients are scaled down. 0 disables clipping.",
        number=FROM_ZERO,
        missing=0.0,
    )
    local_steps: int = setting(1, "Steps from one communication to the next.", low=1)
    outer: str = setting(
        "none",
        "Outer method, such as dsgdm:nesterov=true, applied at each communication to the change "
        "made by the local steps (DiLoCo); none: the nodes mix their models.",
        missing="none",
    )
    outer_lr: float = setting(
        OUTER_LR, "The learning rate of the outer method.", number=ABOVE_ZERO, missing=OUTER_LR
    )
    wire: str = setting(
        "float32",
        "How models are sent: float32, bf16, float16, int8, fp8, topk:0.01 or randk:0.01.",
        missing="float32",
    )
    allow_unstable: bool = setting(
        False, "Train even where the method is unstable on the topology.", free=True
    )
    dataset: str = setting(
        "digits", "digits, mnist, fashion-mnist, cifar10, cifar100, images:PATH, text or text:PATH."
    )
    tokenizer: str = setting(
        "", "A tokenizer file of the tokenizers package, for text; empty: bytes are tokens."
    )
    data_dir: str = setting(
        "", "The folder of datasets; empty: $BASEGRAPH_DATA or ./data.", free=True, local=True
    )
    split: str = setting(
        "dirichlet",
        "How the data is split: dirichlet (by alpha), iid or domains (one domain per node).",
        one_of=SPLITS,
    )
    alpha: float = setting(
        0.1,
        "Concentration of the Dirichlet split: the smaller, the more the nodes' data differ.",
        stacks=True,
        number=("above 0", lambda v: v >= 1e-300),
    )
    split_order: str = setting(
        "shuffled",
        "Which node gets which share of the data: shuffled (by the seed) or by-class.",
        one_of=SPLIT_ORDERS,
        missing="by-class",
    )
    validation: float = setting(
        0.1, "Share of the training set that is held out.", number=BELOW_ONE
    )
    augment: str = setting(
        "auto",
        "crop, flip, erase joined by +, or none; auto: those of the paper for the dataset.",
    )
    normalize: str = setting(
        "dataset",
        "Of images: dataset (its mean and deviation), half ((x - 0.5) / 0.5) or none (0..1).",
        one_of=NORMALIZATIONS,
        missing="dataset",
    )
    padding: str = setting(
        "zero",
        "Padding of cropped images: zero (after normalization) or black (before it).",
        one_of=PADDINGS,
        missing="zero",
    )
    model: str = setting(
        "mlp",
        "mlp, lenet, vgg11, resnet18 or gpt, with options such as vgg11:groups=8 or gpt:layers=4.",
    )
    epochs: int = setting(60, "Passes over the data, in whole steps; see epoch_steps.", low=1)
    epoch_steps: int = setting(0, "Steps of an epoch; 0: a pass over the data.", low=0)
    batch: int = setting(32, "Samples per node and step.", low=1)
    lr: float = setting(0.1, "Peak learning rate η.", stacks=True, number=ABOVE_ZERO)
    schedule: str = setting(
        "cosine", "cosine (to lr_min) or constant.", one_of=("cosine", "constant")
    )
    lr_min: float = setting(
        0.0, "Final learning rate of the cosine; at most lr.", number=FROM_ZERO, missing=0.0
    )
    cosine_epochs: int = setting(
        0,
        "Length of the cosine; 0: all epochs after the warm-up. A longer one is cut off.",
        low=0,
        missing=0,
    )
    lr_changes: str = setting(
        "step",
        "How often the learning rate changes: every step, or every epoch.",
        one_of=("step", "epoch"),
        missing="step",
    )
    warmup: int = setting(
        10,
        "Epochs over which the learning rate rises to lr; at most a tenth of all epochs.",
        low=0,
    )
    warmup_start: float = setting(
        0.0, "Learning rate at the start of the warm-up; at most lr.", number=FROM_ZERO, missing=0.0
    )
    precision: str = setting(
        "tf32",
        "Precision of matrix products: tf32 (float32 where there is no TF32), float32 or bf16.",
        one_of=("tf32", "float32", "bf16"),
    )
    seed: int = setting(0, "Seed of all random draws.", stacks=True, low=0)
    evaluate_every: int = setting(
        0, "Epochs between evaluations; 0: 20 evaluations per run.", free=True, low=0
    )
    evaluate_samples: int = setting(
        -1,
        "Samples per set in evaluations before the last; 0: all; -1: as many as cost no more than "
        "the training between them.",
        free=True,
        low=-1,
        missing=0,
    )
    evaluate_nodes: int = setting(
        -1,
        "Nodes in evaluations before the last; 0: all; -1: as many as cost no more than the "
        "training between them.",
        free=True,
        low=-1,
        missing=0,
    )
    evaluate_last: int = setting(
        0, "Samples per set in the last evaluation; 0: all.", free=True, low=0, missing=0
    )
    checkpoint_every: int = setting(
        0, "Epochs between checkpoints; 0: at every evaluation.", free=True, low=0
    )
    checkpoint_last: bool = setting(
        True,
        "Whether a finished run keeps its checkpoint, which is its largest file.",
        free=True,
    )
    capture: bool = setting(
        True, "On a GPU, replay the whole step as one CUDA graph.", free=True, local=True
    )
    compile: bool = setting(
        True,
        "Compile the captured step with torch.compile: takes a minute, then doubles the speed.",
        free=True,
        local=True,
    )
    threads: int = setting(
        0,
        "CPU threads of torch; 0: by the size of the work, or as OMP_NUM_THREADS says.",
        free=True,
        local=True,
        low=0,
        below=MOST_THREADS,
    )
    device: str = setting(
        "auto", "cpu, cuda, or auto: cuda where there is one.", free=True, local=True
    )

    def __post_init__(self) -> None:
        _spread_algorithm(self)
        damping: object = self.damping
        if isinstance(damping, int | float) and not isinstance(damping, bool):
            object.__setattr__(self, "damping", str(self.damping))
        for name, known in SETTINGS.items():
            value = typed(name, getattr(self, name), DEFAULTS[name])
            object.__setattr__(self, name, value)
            require_accepted(name, value, known)
        if not self.topology.startswith(OWN):
            parse_spec(self.topology)
        if self.device not in ("auto", "cpu", "cuda") and not self.device.startswith("cuda:"):
            raise InvalidArgument("device", self.device, "must be auto, cpu, cuda or cuda:INDEX")
        for name in ("lr_min", "warmup_start"):
            if getattr(self, name) > self.lr:
                raise InvalidArgument(name, getattr(self, name), f"must be at most lr, {self.lr:g}")
        for name in without_effect(vars(self)):
            other, value = NEEDS[name]
            raise InvalidArgument(name, getattr(self, name), f"needs {other}={value}")
        self.augmentations()
        self.damping_share()
        self._require_outer()
        if self.wire != DEFAULTS["wire"]:
            with optional_imports():
                from basegraph.wires.catalog import wire
            object.__setattr__(self, "wire", wire(self.wire).spec)

    def augmentations(self) -> tuple[str, ...]:
        """Which augmentations are made."""
        if self.augment == "auto":
            return _augmentations_of_the_paper(self.dataset)
        if self.augment == "none":
            return ()
        chosen = tuple(self.augment.split("+"))
        for name in chosen:
            if name not in AUGMENTATIONS:
                raise InvalidArgument(
                    "augment", self.augment, "must be auto, none, or some of crop+flip+erase"
                )
        return chosen

    def damping_share(self) -> float | None:
        """τ, or None where the largest stable one is to be used."""
        if self.damping == "auto":
            return None
        if self.damping == "none":
            return 1.0
        try:
            share = float(self.damping)
        except ValueError:
            share = math.nan
        if not 0 < share <= 1:
            raise InvalidArgument("damping", self.damping, "must be none, auto or in (0, 1]")
        return share

    def _require_outer(self) -> None:
        if self.outer != "none":
            outer_method(self.outer)
        elif self.outer_lr != OUTER_LR:
            raise InvalidArgument("outer_lr", self.outer_lr, "needs outer, a method")

    def epochs_between_evaluations(self) -> int:
        """How often nodes are evaluated."""
        return self.evaluate_every or max(1, self.epochs // 20)

    def computes(self) -> dict[str, Any]:
        """The fields that determine the numbers; the others may change when a run is resumed."""
        return {name: getattr(self, name) for name, known in SETTINGS.items() if not known.free}

    def shared(self) -> dict[str, Any]:
        """The fields that runs trained side by side must have in common."""
        return {name: getattr(self, name) for name, known in SETTINGS.items() if not known.stacks}

    def same_on_all_nodes(self) -> dict[str, Any]:
        """The fields that all nodes of a distributed job must have in common."""
        return {name: getattr(self, name) for name, known in SETTINGS.items() if not known.local}

    def to_toml(self) -> str:
        """The configuration as a TOML file."""
        return "".join(f"{name} = {_toml(value)}\n" for name, value in asdict(self).items())


SETTINGS: dict[str, Setting] = {f.name: f.metadata["setting"] for f in fields(RunConfig)}
"""What is known about every field, by name, in their order."""
DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(RunConfig)}
MISSING = {name: known.missing for name, known in SETTINGS.items() if known.missing is not None}
"""Fields that a configuration saved by an earlier version lacks, with what they were then."""


def without_effect(fields: Mapping[str, Any]) -> list[str]:
    """The fields that are set though they have no effect beside the others.

    >>> without_effect({"alpha": 10.0, "split": "iid", "lr_min": 0.01})
    ['alpha']
    """
    chosen = {**DEFAULTS, **fields}
    return [
        name
        for name, (other, value) in NEEDS.items()
        if chosen[name] != DEFAULTS[name] and chosen[other] != value
    ]


def as_saved(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a saved configuration means: an earlier version lacked fields and kept idle ones.

    Args:
        fields: The fields that were saved.

    Returns:
        Those with what the missing ones meant, and with the defaults of those without effect.

    """
    meant = {**MISSING, **fields}
    return {**meant, **{name: DEFAULTS[name] for name in without_effect(meant)}}


def _spread_algorithm(config: RunConfig) -> None:
    """Move the options of the algorithm's spec that are fields into those fields.

    So dsgdm:momentum=0.5 and dsgdm with the field momentum = 0.5 are one configuration.
    """
    if str(config.algorithm).startswith(OWN):
        return
    name, options = parse_algorithm(config.algorithm)
    for option, known in SETTINGS.items():
        if not known.option or option not in options:
            continue
        value = options.pop(option)
        given = getattr(config, option)
        if given != DEFAULTS[option] and str(given) != str(value):
            raise InvalidArgument(option, given, f"conflicts with algorithm={config.algorithm!r}")
        object.__setattr__(config, option, value)
    algorithm(name, **options)  # the method's factory refuses the values that it does not take
    object.__setattr__(config, "algorithm", spec_of(name, dict(sorted(options.items()))))


def _augmentations_of_the_paper(dataset: str) -> tuple[str, ...]:
    if dataset in ("digits", "text") or dataset.startswith((OWN, "text:")):
        return ()
    return ("crop",) if dataset in ("mnist", "fashion-mnist") else AUGMENTATIONS


def _toml(value: object) -> str:
    """A value of a field; the fields are texts, numbers and booleans only."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
