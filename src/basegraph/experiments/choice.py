"""A way to train that `advise` ranks: what it costs, what we know of it, and that in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from basegraph.experiments.measured_accuracy import REFERENCE, Evidence
from basegraph.topologies.two_states.sequence import TWO_VECTORS
from basegraph.units import rate_text, seconds_text

LEVEL = 1.02
"""Step times that differ by less than this factor count as level."""


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """The bandwidths, in bytes per second, at which a way is faster than DDP by 2 % or more."""

    ever: bool
    """Whether there are any."""
    above: float | None = None
    """They begin here; None: there is no lower limit."""
    below: float | None = None
    """They end here; None: there is no upper limit."""

    def __str__(self) -> str:
        if not self.ever:
            return "never faster"
        if self.above is None and self.below is None:
            return "faster at any bandwidth"
        if self.above is None:
            return f"faster below {rate_text(self.below or 0)}"
        if self.below is None:
            return f"faster above {rate_text(self.above)}"
        return f"faster from {rate_text(self.above)} to {rate_text(self.below)}"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A topology with a method and an order, or DDP."""

    topology: str
    """A spec, or `all-reduce` (in a ring) or `all-reduce-halving`."""
    method: str
    """Of the catalogue, or `DDP`."""
    order: str | None
    """Of step and exchange; None for DDP."""
    step_seconds: float
    """Predicted: computing and communicating."""
    computing_seconds: float
    exchange_seconds: float
    """Predicted: communicating alone, in the mean over a period."""
    times_faster: float
    """Than DDP with the faster of its two forms of all-reduce."""
    bytes_per_step: float
    """What the busiest node sends."""
    rounds_to_average: int | None
    """Steps after which all nodes would hold the exact average; None: they only come closer."""
    vectors_per_node: int
    break_even: BreakEven | None
    """Against DDP; None for DDP."""
    evidence: tuple[Evidence, ...]
    """What our runs say about accuracy; empty: nothing was measured."""
    same_as: tuple[str, ...] = ()
    """Other topologies that have the same rounds on this number of nodes."""

    @property
    def is_ddp(self) -> bool:
        """Whether it is DDP."""
        return self.order is None

    @property
    def points(self) -> float | None:
        """The mean of the differences from `base:k=1` that were decided; None: not measured."""
        if not self.evidence:
            return None
        return sum(e.decided for e in self.evidence) / len(self.evidence)

    @property
    def accuracy(self) -> str:
        """What our runs say about accuracy, in a few words."""
        count = len(self.evidence)
        if not count:
            return "not measured"
        settings = f"{count} setting{'s' * (count > 1)}"
        if any(e.topology == REFERENCE for e in self.evidence):
            return f"the reference, {settings}"
        decided = [e.decided for e in self.evidence if e.decided]
        uncertain = [e.uncertain for e in self.evidence if e.uncertain]
        said = [
            f"{_span(points)} points{doubt} in "
            + (settings if len(points) == count else f"{len(points)} of {settings}")
            for points, doubt in ((decided, ""), (uncertain, " (uncertain)"))
            if points
        ]
        if not said:
            return f"level, {settings}"
        rest = ["else level"] if len(decided) + len(uncertain) < count else []
        return ", ".join([*said, *rest])

    @property
    def reason(self) -> str:
        """A sentence: where the time goes, what becomes of the average, what was measured."""
        exchange, computing = (
            seconds_text(self.exchange_seconds),
            seconds_text(self.computing_seconds),
        )
        if self.is_ddp:
            left = seconds_text(self.step_seconds - self.computing_seconds)
            time = f"the all-reduce takes {exchange}, {left} of it after the backward pass"
            average = "every step uses the average gradient of all nodes"
        else:
            hidden = self.exchange_seconds <= self.computing_seconds
            time = (
                f"its exchange of {exchange} comes after the {computing} of computing"
                if self.order == "adapt-then-combine"
                else f"its exchange of {exchange} hides behind the {computing} of computing"
                if hidden
                else f"its exchange of {exchange} runs beside the {computing} of computing"
            )
            average = (
                "nodes only come closer to their average"
                if self.rounds_to_average is None
                else f"{self.rounds_to_average} rounds make the exact average"
            )
            average += f", with {TWO_VECTORS}" if self.vectors_per_node > 1 else ""
        return f"{time}; {average}; accuracy: {self.accuracy}."

    def row(self) -> dict[str, Any]:
        """All of it, for JSON."""
        fields = {name: value for name, value in vars(self).items() if name != "evidence"}
        break_even = vars(self.break_even) if self.break_even else None
        return {
            **fields,
            "same_as": list(self.same_as),
            "break_even": break_even,
            "accuracy": self.accuracy,
            "reason": self.reason,
            "evidence": [vars(e) for e in self.evidence],
        }


def _span(points: list[float]) -> str:
    """The largest and the smallest of some differences, in two digits."""
    ends = [f"{point:+.2g}" for point in (max(points), min(points))]
    return " to ".join(dict.fromkeys(ends))
