"""`RunConfig`: everything that determines a run, checked before anything happens."""

from __future__ import annotations

import ast
import inspect
import math
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from basegraph.algorithms.catalog import algorithm, parse_algorithm
from basegraph.data.dataset import OWN
from basegraph.data.partition import check_order
from basegraph.errors import InvalidArgument, unknown
from basegraph.storage import inputs
from basegraph.topologies.catalog import parse_spec
from basegraph.topologies.core.integers import at_least

MOST_THREADS = 2**10
PRECISIONS = ("tf32", "float32", "bf16")
AUGMENTATIONS = ("crop", "flip", "erase")
FREE = (
    "data_dir",
    "device",
    "threads",
    "capture",
    "compile",
    "evaluate_every",
    "evaluate_samples",
    "evaluate_nodes",
    "checkpoint_every",
    "allow_unstable",
)
"""Fields that may change when a run is resumed: they do not change what it computes."""
BEFORE = {"split_order": "by-class", "evaluate_samples": 0, "evaluate_nodes": 0}
"""Values of fields that a configuration saved by an earlier version lacks."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The fields are the flags of `basegraph train` and the keys of its TOML file."""

    topology: str = "base:k=1"
    """A catalogue name with its options."""
    nodes: int = 25
    """Number of nodes n."""
    algorithm: str = "dsgdm"
    """A method of the catalogue with its options, such as d2:damping=0.5."""
    momentum: float = 0.9
    """β, for the methods that have momentum."""
    nesterov: bool = False
    """Nesterov's momentum, for the methods that have it."""
    damping: str = "none"
    """τ of D²: none, auto (the largest stable one), or a number in (0, 1]."""
    weight_decay: float = 0.0
    """λ: λx is added to the gradient."""
    local_steps: int = 1
    """The nodes communicate every so many steps."""
    allow_unstable: bool = False
    """Train even where the method is unstable on the topology."""
    dataset: str = "digits"
    """digits, mnist, fashion-mnist, cifar10, cifar100 or images:PATH."""
    data_dir: str = ""
    """The folder of datasets; empty: $BASEGRAPH_DATA or ./data."""
    alpha: float = 0.1
    """Of the Dirichlet partition: the smaller, the more the nodes' data differ."""
    split_order: str = "shuffled"
    """Which node holds which share of the data: shuffled (by the seed) or by-class (as it was)."""
    validation: float = 0.1
    """Share of the training set that is held out."""
    augment: str = "auto"
    """crop, flip, erase joined by +, or none; auto: what the paper uses for the dataset, if any."""
    model: str = "mlp"
    """mlp, lenet, vgg11 or resnet18."""
    epochs: int = 60
    """Passes over the data, each rounded up to whole steps."""
    batch: int = 32
    """Samples per node and step."""
    lr: float = 0.1
    """Learning rate η at its highest."""
    schedule: str = "cosine"
    """cosine (to zero) or constant."""
    warmup: int = 10
    """Epochs over which the learning rate rises to lr; at most a tenth of all epochs."""
    precision: str = "tf32"
    """Of products in the model: tf32 (float32 where there is no TF32), float32 or bf16."""
    seed: int = 0
    """Everything random is drawn from it."""
    evaluate_every: int = 0
    """Epochs between evaluations; 0: twenty times in all."""
    evaluate_samples: int = -1
    """Samples per set before the last evaluation; 0: all; -1: what costs no more than training."""
    evaluate_nodes: int = -1
    """Nodes evaluated before the last evaluation; 0: all; -1: what costs no more than training."""
    checkpoint_every: int = 0
    """Epochs between checkpoints; 0: at every evaluation."""
    capture: bool = True
    """On a GPU, replay the whole step as one CUDA graph."""
    compile: bool = True
    """Compile the captured step with torch.compile: takes a minute, then doubles the speed."""
    threads: int = 0
    """CPU threads of torch; 0: by the size of the work, or as OMP_NUM_THREADS says."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""

    def __post_init__(self) -> None:
        _spread_algorithm(self)
        _check_types(self)
        parse_spec(self.topology)
        for field, low in _LOWEST.items():
            at_least(low, below=2**63, **{field: getattr(self, field)})
        at_least(0, below=MOST_THREADS, threads=self.threads)
        _number(self, "momentum", "in [0, 1)", lambda v: 0 <= v < 1)
        _number(self, "weight_decay", "0 or above", lambda v: v >= 0)
        _number(self, "alpha", "above 0", lambda v: v >= 1e-300)
        _number(self, "validation", "in [0, 1)", lambda v: 0 <= v < 1)
        _number(self, "lr", "above 0", lambda v: v > 0)
        if self.schedule not in ("cosine", "constant"):
            raise InvalidArgument("schedule", self.schedule, "must be cosine or constant")
        check_order(self.split_order)
        if self.precision not in PRECISIONS:
            accepted = f"must be one of {', '.join(PRECISIONS)}"
            raise InvalidArgument("precision", self.precision, accepted)
        if self.device not in ("auto", "cpu", "cuda") and not self.device.startswith("cuda:"):
            raise InvalidArgument("device", self.device, "must be auto, cpu, cuda or cuda:INDEX")
        self.augmentations()
        self.damping_share()

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
        """τ, or None where it is to be found."""
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

    def epochs_between_evaluations(self) -> int:
        """How often nodes are evaluated."""
        return self.evaluate_every or max(1, self.epochs // 20)

    def computes(self) -> dict[str, Any]:
        """What determines the numbers: all fields but those of `FREE`."""
        return {name: value for name, value in asdict(self).items() if name not in FREE}

    def to_toml(self) -> str:
        """The configuration as a TOML file."""
        return "".join(f"{name} = {_toml(value)}\n" for name, value in asdict(self).items())


_LOWEST = {
    "nodes": 1,
    "local_steps": 1,
    "epochs": 1,
    "batch": 1,
    "warmup": 0,
    "seed": 0,
    "evaluate_every": 0,
    "evaluate_samples": -1,
    "evaluate_nodes": -1,
    "checkpoint_every": 0,
}


def read_toml(path: Path) -> dict[str, Any]:
    """The fields that a configuration file sets; unknown ones are refused."""
    found = inputs.read_toml("--config", path)
    known = [field.name for field in fields(RunConfig)]
    for name in found:
        if name not in known:
            raise unknown(f"field of {path}", name, known)
    return found


def read_saved(path: Path) -> dict[str, Any]:
    """The fields that a run's own configuration file sets, or meant when it was written."""
    return {**BEFORE, **read_toml(path)}


def field_help() -> dict[str, str]:
    """The line under each field of `RunConfig`, for the help of the command line."""
    (definition,) = ast.parse(inspect.getsource(RunConfig)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, line in pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(line, ast.Expr):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = ast.literal_eval(line.value)
    return found


METHOD_FIELDS = ("momentum", "nesterov", "damping")
"""Options of methods that are fields of their own."""


def _spread_algorithm(config: RunConfig) -> None:
    """Move the options of the algorithm's spec that are fields into those fields.

    So dsgdm:momentum=0.5 and dsgdm with the field momentum = 0.5 are one configuration.
    """
    name, options = parse_algorithm(config.algorithm)
    for field in fields(config):
        if field.name not in METHOD_FIELDS or field.name not in options:
            continue
        value = options.pop(field.name)
        given = getattr(config, field.name)
        if given != field.default and str(given) != str(value):
            raise InvalidArgument(field.name, given, f"algorithm={config.algorithm!r} differs")
        object.__setattr__(config, field.name, value)
    algorithm(name, **options)  # the method's factory refuses the values that it does not take
    written = ",".join(f"{option}={_plain(value)}" for option, value in sorted(options.items()))
    object.__setattr__(config, "algorithm", f"{name}:{written}" if written else name)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_WORDS = {str: "text", int: "an integer", float: "a number", bool: "true or false"}


def _check_types(config: RunConfig) -> None:
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name == "damping" and type(value) in (int, float):
            value = str(value)
            object.__setattr__(config, field.name, value)
        kind = {"str": str, "int": int, "float": float, "bool": bool}[str(field.type)]
        if kind is float and isinstance(value, int) and abs(value) < 2**53 and value is not True:
            object.__setattr__(config, field.name, float(value))
        elif kind is str and not str(value).isprintable():
            raise InvalidArgument(field.name, value, "must be printable text")
        elif type(value) is not kind:
            raise InvalidArgument(field.name, value, f"must be {_WORDS[kind]}")


def _number(config: RunConfig, field: str, accepted: str, test: Any) -> None:
    value = getattr(config, field)
    if not math.isfinite(value) or not test(value):
        raise InvalidArgument(field, value, f"must be a number {accepted}")


def _augmentations_of_the_paper(dataset: str) -> tuple[str, ...]:
    if dataset == "digits" or dataset.startswith(OWN):
        return ()
    return ("crop",) if dataset in ("mnist", "fashion-mnist") else AUGMENTATIONS


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
