"""`TwoStateRound`: one round of nodes that keep two vectors each, with exact rational weights.

Legend: node i keeps x_i and y_i. A round is a linear map on these 2n vectors, which stand as 2n
*slots*: x_i is slot i, y_i is slot n + i.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.arrays import IntArray
from basegraph.topologies.core.integers import at_least, node
from basegraph.topologies.core.rational import rational
from basegraph.topologies.core.round import Round

if TYPE_CHECKING:
    from scipy.sparse import csr_array

VECTORS = ("x", "y")


class Heard(NamedTuple):
    """What a node hears from another: x ← x + `x` (v - x) and y ← y + `y` (v - y)."""

    vector: str
    """Which vector of the sender v is: "x" or "y"."""
    x: Fraction
    """The weight of v in the listener's x; what remains to 1 is the weight of x itself."""
    y: Fraction
    """The weight of v in the listener's y."""


@dataclass(frozen=True, eq=False, repr=False)
class TwoStateRound:
    """One round on n nodes of two vectors each: a message is one vector of its sender.

    >>> r = TwoStateRound.from_messages(
    ...     2, {(i, 1 - i): Heard("x", Fraction(1, 2), Fraction(1)) for i in (0, 1)}
    ... )
    >>> r.neighbors(0)
    {1: Heard(vector='x', x=Fraction(1, 2), y=Fraction(1, 1))}
    >>> r.matrix().toarray().tolist()  # of x_0, x_1, y_0, y_1
    [[0.5, 0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    """

    n: int
    slots: Round
    """The map on the 2n slots: its rows sum to one, its columns need not."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", at_least(1, n=self.n))
        if not isinstance(self.slots, Round) or self.slots.n != 2 * self.n:
            raise InvalidArgument("slots", self.slots, f"must be a round on {2 * self.n} slots")

    @classmethod
    def from_messages(cls, n: int, messages: Mapping[tuple[int, int], Heard]) -> TwoStateRound:
        """The round of these messages, by (listener, sender); weights in [0, 1]."""
        n = at_least(1, n=n)
        arcs: dict[tuple[int, int], Fraction] = {}
        for (i, j), heard in messages.items():
            if heard.vector not in VECTORS:
                raise InvalidArgument("vector", heard.vector, "must be 'x' or 'y'")
            sent = node(j, n) + n * VECTORS.index(heard.vector)
            for slot, weight in ((node(i, n), heard.x), (i + n, heard.y)):
                if weight:
                    arcs[slot, sent] = rational("weight", weight)
        return cls(n, Round.from_arcs(2 * n, arcs))

    # -- messages ----------------------------------------------------------------------------

    @cached_property
    def _messages(self) -> tuple[IntArray, IntArray]:
        """(listeners, slots that are sent): every message once; what a node keeps is none."""
        listeners, sent = self.slots.receivers % self.n, self.slots.senders
        between = listeners != sent % self.n
        keys = np.sort(listeners[between] * (2 * self.n) + sent[between])
        keys = keys[np.diff(keys, prepend=-1) > 0]  # quicker than np.unique for millions
        return keys // (2 * self.n), keys % (2 * self.n)

    @property
    def receivers(self) -> IntArray:
        """The listener of every message, ascending."""
        return self._messages[0]

    @property
    def senders(self) -> IntArray:
        """The sender of every message."""
        return self._messages[1] % self.n

    @property
    def vectors(self) -> tuple[str, ...]:
        """Which vector every message holds: "x" or "y"."""
        return tuple(VECTORS[slot] for slot in (self._messages[1] // self.n).tolist())

    @property
    def degree(self) -> int:
        """The most messages that any node sends or hears."""
        heard = np.bincount(self.receivers, minlength=self.n)
        return int(np.maximum(heard, np.bincount(self.senders, minlength=self.n)).max())

    def neighbors(self, i: int) -> dict[int, Heard]:
        """Whom node i hears in this round, which vector, and with which exact weights."""
        i = node(i, self.n)
        x, y = self.slots.neighbors(i), self.slots.neighbors(i + self.n)
        heard = {}
        for sent in sorted({*x, *y}):
            if sent % self.n != i:
                weights = x.get(sent, Fraction(0)), y.get(sent, Fraction(0))
                heard[sent % self.n] = Heard(VECTORS[sent // self.n], *weights)
        return heard

    def listeners(self, i: int) -> tuple[int, ...]:
        """The nodes that hear node i in this round, ascending."""
        return tuple(np.unique(self.receivers[self.senders == node(i, self.n)]).tolist())

    def messages(self) -> Round:
        """Who hears whom, as a directed graph on the n nodes; each arc has its weight in x.

        It is for drawings and counts, and not what the round does: that is `matrix`.
        """
        arcs = {
            (i, j): self.neighbors(i)[j].x
            for i, j in zip(self.receivers.tolist(), self.senders.tolist(), strict=True)
        }
        return Round.from_arcs(self.n, arcs)

    def to_networkx(self) -> NoReturn:
        """Refused: a graph's edge has one weight, a message here has two.

        Raises:
            InvalidArgument: Always; names what to use.

        """
        raise InvalidArgument(
            "round",
            self,
            "a graph cannot hold two vectors per node; messages().to_networkx() is who hears whom",
        )

    def caption(self) -> str:
        """What is sent and how it is weighed, in words; for rounds in which all do the same."""
        kinds = {heard for i in range(self.n) for heard in self.neighbors(i).values()}
        if len(kinds) != 1:
            return f"{len(kinds)} kinds of messages" if kinds else "no node sends"
        ((vector, x, y),) = kinds
        return f"{vector} is sent, weight {x} in x, {y} in y"

    # -- the map -----------------------------------------------------------------------------

    def matrix(self, dtype: DTypeLike = np.float64) -> csr_array[Any, Any]:
        """The map as a 2n × 2n `scipy.sparse.csr_array`: rows and columns x_0.., then y_0.. ."""
        return self.slots.matrix(dtype)

    def __eq__(self, other: object) -> bool:
        """Whether the maps are the same, exactly."""
        if not isinstance(other, TwoStateRound):
            return NotImplemented
        return self.slots == other.slots

    def __hash__(self) -> int:
        return hash(self.slots)

    def __repr__(self) -> str:
        return (
            f"<round on {self.n} nodes of two vectors each: {len(self.receivers)} messages, "
            f"degree {self.degree}>"
        )
