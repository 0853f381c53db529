"""`TwoStateSequence`: a topology kind of its own, for nodes that keep two vectors each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least, node
from basegraph.topologies.core.notebook import topology_html
from basegraph.topologies.core.sequence import Topology, drawing
from basegraph.topologies.two_states.round import Heard, TwoStateRound

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

TWO_VECTORS = "two vectors per node"
"""What is said of these sequences wherever they are shown."""


class TwoStateSequence:
    """Which round happens at step t, on n nodes that keep two vectors each; it repeats.

    It is no `Topology`: a round maps 2n vectors, not n, so nothing that multiplies n × n mixing
    matrices applies to it. What is asked in the same words means the same: `round`, `neighbors`,
    `listeners`, `period`, iteration over one period. Time is an argument here too.

    Args:
        rounds: The rounds of one period.
        spec: What it is called.

    Raises:
        InvalidArgument: If there is no round, or they differ in their number of nodes.

    """

    spec: str
    """How the catalogue is asked for it: `ceca`."""
    n: int
    period: int
    """After how many steps the rounds repeat."""
    promised_degree: int | None = None
    """A degree that no round may exceed; `verify` checks it."""
    symmetric: bool = False
    """A claim that `Topology` has; nothing is claimed of the maps here."""
    note: str = TWO_VECTORS
    """What to know about it."""
    states = 2
    """Vectors that a node keeps."""

    def __init__(self, rounds: Iterable[TwoStateRound], spec: str = "custom") -> None:
        self._rounds = list(rounds)
        if not self._rounds or not all(isinstance(r, TwoStateRound) for r in self._rounds):
            raise InvalidArgument("rounds", self._rounds, "must be one or more two-state rounds")
        sizes = {r.n for r in self._rounds}
        if len(sizes) > 1:
            raise InvalidArgument("rounds", sorted(sizes), "must all have the same number of nodes")
        (self.n,) = sizes
        self.spec = spec
        self.period = len(self._rounds)

    @cached_property
    def max_degree(self) -> int:
        """The most messages that any node sends or hears in one round."""
        return max(r.degree for r in self)

    @property
    def name(self) -> str:
        """The catalogue name: the spec without its options."""
        return self.spec.partition(":")[0]

    def round(self, step: int) -> TwoStateRound:
        """The round of this step; nothing of the other rounds is built.

        Args:
            step: Any integer ≥ 0; the sequence repeats after its period.

        Raises:
            InvalidArgument: If the step is negative.

        """
        return self._round(self._phase(step))

    def neighbors(self, i: int, step: int) -> dict[int, Heard]:
        """Whom node i hears at this step, which vector, with which weights, in the cheapest way.

        Args:
            i: The node that listens.
            step: The step.

        Returns:
            {sender: what is heard}, exact; the node's own weights are what remains to 1.

        Raises:
            InvalidArgument: If there is no such node, or the step is negative.

        """
        return self._neighbors(node(i, self.n), self._phase(step))

    def listeners(self, i: int, step: int) -> tuple[int, ...]:
        """The nodes that hear node i at this step, in the cheapest way there is.

        Args:
            i: The node that sends.
            step: The step.

        Returns:
            The receivers, ascending.

        Raises:
            InvalidArgument: If there is no such node, or the step is negative.

        """
        return self._listeners(node(i, self.n), self._phase(step))

    def _phase(self, step: int) -> int:
        return at_least(0, step=step) % self.period

    def _round(self, phase: int) -> TwoStateRound:
        return self._rounds[phase]

    def _neighbors(self, i: int, phase: int) -> dict[int, Heard]:
        return self._round(phase).neighbors(i)

    def _listeners(self, i: int, phase: int) -> tuple[int, ...]:
        return self._round(phase).listeners(i)

    def __len__(self) -> int:
        return self.period

    def __getitem__(self, index: int) -> TwoStateRound:
        if isinstance(index, slice):
            raise InvalidArgument("index", index, "must be an integer")
        if not -self.period <= index < self.period:
            raise IndexError(f"round {index} of a sequence of {self.period} rounds")
        return self.round(index % self.period)

    def __iter__(self) -> Iterator[TwoStateRound]:
        return (self.round(step) for step in range(self.period))

    def __eq__(self, other: object) -> bool:
        """Whether n and all rounds of a period are the same, exactly; names do not count."""
        if not isinstance(other, TwoStateSequence):
            return NotImplemented
        if self is other:
            return True
        same_size = (self.n, self.period) == (other.n, other.period)
        return same_size and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((self.n, self.period, self.states))

    def draw(self, path: str | Path | None = None, *, steps: int | None = None) -> Figure:
        """Draw the messages of the rounds, a circle of nodes for each, with matplotlib.

        Args:
            path: Where to save the figure, .png, .svg or .pdf; default: nowhere.
            steps: How many rounds; default: one period.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            MissingExtra: If matplotlib is not installed; names the pip command.
            InvalidArgument: If there are too many nodes or rounds to draw, or the path's suffix
                is none of the three.

        """
        return drawing(self, path, self.period if steps is None else steps)

    def _repr_html_(self) -> str:
        return topology_html(self, drawn=lambda step: self.round(step).messages())

    def __repr__(self) -> str:
        return (
            f"<{self.spec}, {self.n} nodes, {self.period} rounds, degree {self.max_degree}, "
            f"{TWO_VECTORS}>"
        )


AnyTopology = Topology | TwoStateSequence
"""What says which round happens at a step, with one vector per node or with two."""


def refuse_two_states(argument: str, topology: object, use: str) -> None:
    """Refuse a two-state sequence where vectors are mixed one per node.

    Args:
        argument: What the caller calls it.
        topology: What was given; anything but a two-state sequence passes.
        use: What to use instead, as the end of the sentence.

    Raises:
        InvalidArgument: If it is one.

    """
    if isinstance(topology, TwoStateSequence):
        raise InvalidArgument(argument, topology.spec, f"keeps {TWO_VECTORS}: {use}")
