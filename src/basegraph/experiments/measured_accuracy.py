"""What our own runs say about the accuracy of topologies: a table made from docs/results.

`measured_accuracy.json` is written by `scripts/measured_accuracy.py` and describes its format.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("measured_accuracy.json")
REFERENCE = "base:k=1"
"""What every topology is compared with, within seeds."""
ALIKE = 1.0
"""Above this α of a Dirichlet partition the nodes' data count as alike."""
CONFIDENCE = 0.95
"""Of the interval (by Student's t) that must not contain 0 for a difference to count as one."""
LARGE = 1.0
"""Points from which a difference that does not count as one is not called level either."""
MODEL_NAMES = {"vgg11": "VGG-11", "lenet": "LeNet", "mlp": "MLP", "resnet18": "ResNet-18"}


@dataclass(frozen=True)
class Evidence:
    """How a topology ended in one setting."""

    data: str
    model: str
    nodes: int
    alpha: float
    algorithm: str
    lr: float | str
    epochs: int
    split_order: str
    source: str
    """The folder with the runs."""
    topology: str
    """The one that was trained; it may have another name, with the same rounds."""
    seeds: int
    accuracy: float
    """Percent, of the nodes' own models at the end: mean over nodes and seeds."""
    averaged: float
    """Percent, of the average of the nodes' models."""
    above: float
    """Points above `base:k=1`, within seeds."""
    error: float | None
    """Standard error of that."""

    @property
    def decided(self) -> float:
        """The difference from `base:k=1`; 0 where its 95 % interval contains 0."""
        from scipy.special import stdtrit

        if self.error is None:
            return 0.0
        errors = float(stdtrit(self.seeds - 1, (1 + CONFIDENCE) / 2))
        return self.above if abs(self.above) > errors * self.error else 0.0

    @property
    def uncertain(self) -> float:
        """A difference from `base:k=1` that may be large or none: too few seeds; or 0."""
        return 0.0 if self.decided or abs(self.above) < LARGE else self.above

    def __str__(self) -> str:
        setting = f"{self.data}, {MODEL_NAMES.get(self.model, self.model)}"
        setting += f" (η = {self.lr:g})" if isinstance(self.lr, float) else ""
        if self.topology == REFERENCE:
            return f"{setting}: {self.accuracy:.1f} %"
        error = "" if self.error is None else f" ± {self.error:.2f}"
        return f"{setting}: {self.accuracy:.1f} %, {self.above:+.2f}{error} to {REFERENCE}"


def evidence(spec: str, alpha: float | None) -> list[Evidence]:
    """What was measured for a topology on data about as unequal as this.

    Args:
        spec: As in `bg.topology`, or `all-reduce`.
        alpha: Of the Dirichlet partition; None for data alike on all nodes.

    Returns:
        One per setting, empty where nothing was measured.

    Example:
        >>> print(evidence("one-peer-exponential", alpha=0.1)[-1])
        CIFAR-10, VGG-11 (η = 0.1): 83.8 %, -0.62 ± 0.09 to base:k=1
        >>> evidence("hyper-hypercube", alpha=0.1)
        []

    """
    alike = alpha is None or alpha > ALIKE
    found = []
    for comparison in _table()["comparisons"]:
        if (comparison["alpha"] > ALIKE) != alike:
            continue
        for name, measured in comparison["topologies"].items():
            if spec == name or spec in measured["same"]:
                keys = ("seeds", "accuracy", "averaged", "above", "error")
                shared = {
                    key: value
                    for key, value in comparison.items()
                    if key not in ("topologies", "dataset")
                }
                found.append(
                    Evidence(**shared, topology=name, **{key: measured[key] for key in keys})
                )
                break
    return found


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table
