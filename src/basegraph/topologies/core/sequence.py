"""`Topology`: what says which round happens at step t. `Sequence`: a topology with a period.

Time is an argument: `topology.round(t)` is a pure function of t, and reading it advances nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from basegraph.errors import InvalidArgument
from basegraph.extras import optional_imports
from basegraph.storage.files import writable
from basegraph.topologies.core.integers import at_least, node
from basegraph.topologies.core.notebook import topology_html
from basegraph.topologies.core.round import Round

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Topology(ABC):
    """Which round happens at step t, on n nodes."""

    spec: str
    """How the catalogue is asked for it: `base:k=1`."""
    n: int
    period: int | None
    """After how many steps the rounds repeat; None: never (a random topology)."""
    max_degree: int
    """The largest number of neighbors any node talks to in one round."""
    promised_degree: int | None = None
    """The k that was asked for, where the construction promises not to exceed it."""
    symmetric: bool
    """Whether every mixing matrix is symmetric (the graphs are undirected)."""
    note: str = ""
    """What to know about this topology at this n, if anything."""

    @property
    def name(self) -> str:
        """The catalogue name: the spec without its options."""
        return self.spec.partition(":")[0]

    def round(self, step: int) -> Round:
        """The round of this step; nothing of the other rounds is built.

        Args:
            step: Any integer ≥ 0; a sequence repeats after its period.

        Raises:
            InvalidArgument: If the step is negative.

        """
        return self._round(self._phase(step))

    def neighbors(self, i: int, step: int) -> dict[int, Fraction]:
        """Whom node i hears at this step, in the cheapest way there is.

        Args:
            i: The node that listens.
            step: The step.

        Returns:
            {sender: weight}, exact; the self weight is what remains to 1.

        Raises:
            InvalidArgument: If there is no such node, or the step is negative.

        """
        return self._neighbors(node(i, self.n), self._phase(step))

    def listeners(self, i: int, step: int) -> tuple[int, ...]:
        """The nodes that hear node i at this step, in the cheapest way there is.

        O(degree) where the graphs are undirected or circulant, as all of the catalogue are;
        otherwise the round is built.

        Args:
            i: The node that sends.
            step: The step.

        Returns:
            The receivers, ascending.

        Raises:
            InvalidArgument: If there is no such node, or the step is negative.

        Example:
            >>> from basegraph.topologies.catalog import topology
            >>> t = topology("exponential", n=6)  # node i hears i - 1, i - 2 and i - 4
            >>> t.listeners(0, 0), sorted(t.neighbors(0, 0))
            ((1, 2, 4), [2, 4, 5])

        """
        return self._listeners(node(i, self.n), self._phase(step))

    def _phase(self, step: int) -> int:
        step = at_least(0, step=step)
        return step if self.period is None else step % self.period

    @abstractmethod
    def _round(self, phase: int) -> Round: ...

    def _neighbors(self, i: int, phase: int) -> dict[int, Fraction]:
        return self._round(phase).neighbors(i)

    def _listeners(self, i: int, phase: int) -> tuple[int, ...]:
        if self.symmetric:
            return tuple(sorted(self._neighbors(i, phase)))
        return self._round(phase).listeners(i)

    def __eq__(self, other: object) -> bool:
        """Whether n and all rounds of a period are the same, exactly; names do not count.

        Random topologies never repeat: they are the same if spec and n are.
        """
        if not isinstance(other, Topology):
            return NotImplemented
        if self is other:
            return True
        if (self.n, self.period) != (other.n, other.period):
            return False
        if self.period is None:
            return self.spec == other.spec
        return all(self.round(step) == other.round(step) for step in range(self.period))

    def __hash__(self) -> int:
        return hash((self.n, self.period))

    def draw(self, path: str | Path | None = None, *, steps: int | None = None) -> Figure:
        """Draw the rounds in the paper's style, a circle of nodes for each, with matplotlib.

        Args:
            path: Where to save the figure, .png, .svg or .pdf; default: nowhere.
            steps: How many rounds; default: one period, or one round of a random topology.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            MissingExtra: If matplotlib is not installed; names the pip command.
            InvalidArgument: If there are too many nodes or rounds to draw, or the path's suffix
                is none of the three.

        Example:
            >>> from basegraph.topologies.catalog import topology
            >>> len(topology("base", n=6).draw().axes)
            4

        """
        return drawing(self, path, steps if steps is not None else self.period or 1)

    def _repr_html_(self) -> str:
        return topology_html(self)

    def __repr__(self) -> str:
        rounds = "random rounds" if self.period is None else f"{self.period} rounds"
        return f"<{self.spec}, {self.n} nodes, {rounds}, degree {self.max_degree}>"


class Sequence(Topology):
    """A topology with a period m: rounds 0 .. m-1, then again. Iterating gives one period.

    Made from a list of rounds, it is the way to bring one's own:

    >>> once = Round.from_edges(2, {(0, 1): Fraction(1, 2)})
    >>> len(Sequence([once, once])), Sequence([once]).round(7) == once
    (2, True)

    Indexing gives a round, slicing the sequence of these rounds:

    >>> from basegraph.topologies.catalog import topology
    >>> topology("base", n=6)[1:3]
    <base:k=1[1:3], 6 nodes, 2 rounds, degree 1>

    Args:
        rounds: The rounds of one period.
        spec: What it is called.
        promised_degree: A degree that no round may exceed; `verify` checks it.
        note: What to know about it.

    Raises:
        InvalidArgument: If there is no round, or they differ in their number of nodes.

    """

    period: int

    def __init__(
        self,
        rounds: Iterable[Round],
        spec: str = "custom",
        *,
        promised_degree: int | None = None,
        note: str = "",
    ) -> None:
        self._rounds = list(rounds)
        if not self._rounds or not all(isinstance(r, Round) for r in self._rounds):
            raise InvalidArgument("rounds", self._rounds, "must be one or more rounds")
        sizes = {r.n for r in self._rounds}
        if len(sizes) > 1:
            raise InvalidArgument("rounds", sorted(sizes), "must all have the same number of nodes")
        (self.n,) = sizes
        self.spec = spec
        self.period = len(self._rounds)
        self.promised_degree = promised_degree
        self.note = note

    @cached_property
    def max_degree(self) -> int:  # type: ignore[override]
        """The largest number of neighbors any node talks to in one round."""
        return max(r.degree for r in self)

    @cached_property
    def symmetric(self) -> bool:  # type: ignore[override]
        """Whether every mixing matrix is symmetric (the graphs are undirected)."""
        return all(r.is_symmetric() for r in self)

    def _round(self, phase: int) -> Round:
        return self._rounds[phase]

    def __len__(self) -> int:
        return self.period

    @overload
    def __getitem__(self, index: int) -> Round: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence: ...
    def __getitem__(self, index: int | slice) -> Round | Sequence:
        if isinstance(index, slice):
            ends = (index.start, index.stop, *([] if index.step is None else [index.step]))
            written = ":".join("" if end is None else str(end) for end in ends)
            rounds = [self.round(step) for step in range(self.period)[index]]
            spec = f"{self.spec}[{written}]"
            return Sequence(rounds, spec, promised_degree=self.promised_degree)
        if not -self.period <= index < self.period:
            raise IndexError(f"round {index} of a sequence of {self.period} rounds")
        return self.round(index % self.period)

    def __iter__(self) -> Iterator[Round]:
        return (self.round(step) for step in range(self.period))


def drawing(topology: Any, path: str | Path | None, steps: int) -> Figure:
    """The figure of so many rounds, saved if there is a path; see `Topology.draw`."""
    with optional_imports():
        from basegraph.plots.canvas import save
        from basegraph.plots.rounds import rounds_figure
    figure = rounds_figure(topology, steps=steps)
    if path is not None:
        suffixes = (".png", ".svg", ".pdf")
        save(figure, writable("path", Path(path), suffixes=suffixes, force=True))
    return figure


def rebuilt(topology: Topology) -> tuple[Callable[..., Topology], tuple[str, int]]:
    """How to pickle a topology of the catalogue: spec and n say everything."""
    from basegraph.topologies.catalog import topology as build

    return build, (topology.spec, topology.n)
