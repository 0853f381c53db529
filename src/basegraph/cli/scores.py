"""How good models are, in words: accuracies in percent, losses, or bits per byte of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Unit(NamedTuple):
    """What the scores of runs are shown in."""

    measure: str
    """As in the names of metrics: `test_MEASURE`."""
    name: str
    """In words."""
    column: str
    """At the head of a column."""

    def show(self, value: float) -> str:
        """A score in words.

        >>> UNITS[0].show(0.953), UNITS[1].show(2.0512)
        ('95.3%', '2.051')
        """
        return f"{value:.1%}" if self.measure == "accuracy" else f"{value:.4g}"

    def cell(self, row: Mapping[str, Any], part: str, whose: str = "", digits: int = 1) -> str:
        """A score of a row in a table: on `test` or `validation`, of `averaged` or `worst`.

        A row of means also has the deviation.
        """
        name = "_".join(filter(None, (part, self.measure, whose)))
        value, deviation = row.get(name), row.get(f"{name}_std")
        if value is None:
            return "–"
        if self.measure == "accuracy":
            spread = "" if deviation is None else f" ± {100 * deviation:.{digits}f}"
            return f"{100 * value:.{digits}f}{spread}"
        return f"{value:.4g}" + ("" if deviation is None else f" ± {deviation:.2g}")


UNITS = (
    Unit("accuracy", "accuracy", "%"),
    Unit("bits_per_byte", "bits per byte", "bits/byte"),
    Unit("loss", "loss", "loss"),
)
"""In the order of preference."""


def unit_of(rows: Iterable[Mapping[str, Any]]) -> Unit:
    """The unit for these rows of metrics: the first that any of them has."""
    known = list(rows)
    return next((u for u in UNITS if any(f"test_{u.measure}" in row for row in known)), UNITS[-1])


def said(row: Mapping[str, Any]) -> str:
    """The mean score of the nodes on the test set.

    >>> said({"test_loss": 1.386, "test_bits_per_byte": 2.0})
    'test loss 1.386 nats per token, 2 bits per byte'
    """
    unit = unit_of([row])
    value = unit.show(row[f"test_{unit.measure}"])
    if unit.measure == "bits_per_byte":
        return f"test loss {row['test_loss']:.4g} nats per token, {value} bits per byte"
    return f"test {unit.name} {value}"


def said_of_all(row: Mapping[str, Any]) -> str:
    """The same, and those of the averaged model and of the worst node."""
    unit = unit_of([row])
    averaged, worst = (
        unit.show(row[f"test_{unit.measure}_{whose}"]) for whose in ("averaged", "worst")
    )
    return f"{said(row)} (averaged model {averaged}, worst node {worst})"


def said_of_evaluation(row: Mapping[str, Any]) -> str:
    """An evaluation as a line."""
    tokens = f"{row['tokens'] / 1e6:.4g} M tokens, " if "tokens" in row else ""
    return (
        f"epoch {row['epoch']}: loss {row['train_loss']:.4f}, {said_of_all(row)}, consensus "
        f"distance {row['consensus_distance']:.2g}, {tokens}"
        f"{row['bytes_per_node'] / 1e6:.1f} MB per node"
    )
