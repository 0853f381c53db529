"""`Round`: one synchronous exchange, that is one mixing matrix W, with exact rational weights.

Legend: an *arc* is receiver ← sender; arc e carries the weight numerators[e] / denominators[e].
An undirected edge is two arcs. What a node's incoming weights leave to 1 is its self weight, so
every row of W sums to one by construction.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from basegraph.errors import InvalidArgument, InvalidRound
from basegraph.topologies.core.arrays import (
    FloatArray,
    IntArray,
    distinct,
    frozen,
    largest_size,
    quotients,
    read_only,
)
from basegraph.topologies.core.integers import at_least, node
from basegraph.topologies.core.notebook import round_html
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.rational import rational

if TYPE_CHECKING:
    from pathlib import Path

    import networkx
    from matplotlib.figure import Figure
    from scipy.sparse import csr_array

__all__ = ["FloatArray", "IntArray", "Round"]

_ARRAYS = ("receivers", "senders", "numerators", "denominators", "origins")


@dataclass(frozen=True, eq=False, repr=False)
class Round:
    """One round on n nodes, given by its arcs. The arrays are read-only.

    A round takes over the arrays that it is given, which become read-only, and copies those that
    are views of writable ones: what was verified cannot change.

    >>> r = Round.from_edges(3, {(0, 1): Fraction(1, 2)})
    >>> r.neighbors(0), r.self_weight(2)
    ({1: Fraction(1, 2)}, Fraction(1, 1))
    >>> r.matrix().toarray().tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """

    n: int
    receivers: IntArray
    """Ascending, so that the arcs into one node stand together."""
    senders: IntArray
    numerators: IntArray
    denominators: IntArray
    origins: NDArray[np.uint8] = None  # type: ignore[assignment]
    """An `Origin` per arc; left out: unspecified for all."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", at_least(1, n=self.n))
        arcs = len(self.receivers)
        if self.origins is None:
            self._set("origins", np.broadcast_to(np.uint8(Origin.UNSPECIFIED), arcs))
        for name in _ARRAYS:
            array = np.asarray(getattr(self, name))
            if array.shape != (arcs,):
                raise InvalidArgument(name, array.shape, f"must have shape {(arcs,)}, one per arc")
            if arcs and array.dtype.kind not in "iu":
                raise InvalidArgument(name, str(array.dtype), "must be an array of integers")
            if array.dtype.kind == "u" and array.max(initial=0) > np.iinfo(np.int64).max:
                raise InvalidArgument(name, int(array.max()), "must fit into int64")
            self._set(name, array.astype(np.uint8 if name == "origins" else np.int64, copy=False))
            if name in ("receivers", "senders") and arcs:
                self._refuse_strangers(array)
        if (np.diff(self.receivers) < 0).any():
            order = np.argsort(self.receivers, kind="stable")
            for name in _ARRAYS:
                self._set(name, getattr(self, name)[order])

    def _refuse_strangers(self, nodes: IntArray) -> None:
        if nodes.min() < 0 or nodes.max() >= self.n:
            arc = int(np.argmax((nodes < 0) | (nodes >= self.n)))
            raise InvalidRound(
                f"arc {self.receivers[arc]} ← {self.senders[arc]} leaves the nodes 0 to "
                f"{self.n - 1}"
            )

    def _set(self, name: str, array: NDArray[Any]) -> None:
        object.__setattr__(self, name, frozen(array))

    @classmethod
    def from_edges(cls, n: int, edges: Mapping[tuple[int, int], Fraction]) -> Round:
        """The round with these undirected edges, each given once, and weights in (0, 1]."""
        arcs: dict[tuple[int, int], Fraction] = {}
        for pair, weight in edges.items():
            i, j = _pair("edges", pair)
            if (i, j) in arcs:
                raise InvalidArgument("edges", (i, j), "is given in both directions")
            arcs[i, j] = arcs[j, i] = weight
        return cls.from_arcs(n, arcs)

    @classmethod
    def from_arcs(cls, n: int, arcs: Mapping[tuple[int, int], Fraction]) -> Round:
        """The round with these arcs (receiver, sender) and weights in (0, 1]."""
        known = {_pair("arcs", pair): weight for pair, weight in arcs.items()}
        ordered = sorted(known)
        for i, j in ordered:
            if i == j:
                raise InvalidArgument("arcs", (i, j), "must join two nodes; self weights follow")
        receivers, senders = np.array(ordered, dtype=np.int64).reshape(-1, 2).T
        weights = [rational("weight", known[arc]) for arc in ordered]
        numerators = np.array([w.numerator for w in weights], dtype=np.int64)
        denominators = np.array([w.denominator for w in weights], dtype=np.int64)
        return cls(n, receivers, senders, numerators, denominators)

    def __reduce__(self) -> tuple[type[Round], tuple[Any, ...]]:
        return Round, (self.n, *(getattr(self, name) for name in _ARRAYS))  # read-only there, too

    # -- views -------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> FloatArray:
        """The weights as float64, one per arc, each the exact value correctly rounded."""
        return read_only(self._weights())

    @cached_property
    def self_weights(self) -> FloatArray:
        """The self weights as float64, one per node, each the exact value correctly rounded."""
        return read_only(self._self_weights())

    def _weights(self) -> FloatArray:
        return quotients(self.numerators, self.denominators)

    def _self_weights(self) -> FloatArray:
        if (self.receivers[1:] != self.receivers[:-1]).all():  # no node hears two others
            own = np.ones(self.n)
            left = self.denominators - self.numerators
            own[self.receivers] = quotients(left, self.denominators)
            return own
        scale, _, leftover = self.over_common_denominator()
        return quotients(leftover, scale)

    def self_weight(self, i: int) -> Fraction:
        """The exact self weight of node i."""
        return 1 - sum(self.neighbors(i).values(), Fraction(0))

    def neighbors(self, i: int) -> dict[int, Fraction]:
        """Whom node i hears in this round, with exact weights: {sender: weight}."""
        i = node(i, self.n)
        first, last = np.searchsorted(self.receivers, (i, i + 1))
        return {
            int(sender): Fraction(int(numerator), int(denominator))
            for sender, numerator, denominator in zip(
                self.senders[first:last],
                self.numerators[first:last],
                self.denominators[first:last],
                strict=True,
            )
        }

    def listeners(self, i: int) -> tuple[int, ...]:
        """The nodes that hear node i in this round, ascending."""
        return tuple(np.unique(self.receivers[self.senders == node(i, self.n)]).tolist())

    def matrix(self, dtype: DTypeLike = np.float64) -> csr_array[Any, Any]:
        """W as a `scipy.sparse.csr_array`, self loops included."""
        from scipy.sparse import csr_array

        heard = np.bincount(self.receivers, minlength=self.n)
        first = np.zeros(self.n + 1, dtype=np.int64)
        np.cumsum(heard + 1, out=first[1:])
        kind = np.int32 if first[-1] < 2**31 else np.int64
        columns = np.empty(first[-1], dtype=kind)
        values = np.empty(first[-1], dtype=dtype)
        # Row by row: the self loop, then the arcs, which stand in this order already.
        own: Any = first[:-1]
        others: Any = np.arange(len(self.receivers)) + self.receivers + 1
        columns[own], values[own] = np.arange(self.n), self._self_weights()
        columns[others], values[others] = self.senders, self._weights()
        return csr_array((values, columns, first.astype(kind)), shape=(self.n, self.n))

    @property
    def degree(self) -> int:
        """The largest number of neighbors any node sends to or hears."""
        return int(self.degrees().max())

    def degrees(self) -> IntArray:
        """Per node: the number of neighbors it sends to or hears, whichever is more."""
        heard = np.bincount(self.receivers, minlength=self.n)
        return np.maximum(heard, np.bincount(self.senders, minlength=self.n))

    def is_symmetric(self) -> bool:
        """Whether every arc has its counterpart with the same weight (the graph is undirected)."""
        return not self.repeated().any() and not self.unreturned().any()

    def repeated(self) -> NDArray[np.bool_]:
        """Per arc: whether the same arc stands before it already."""
        keys = self.receivers * self.n + self.senders
        order = np.argsort(keys, kind="stable")
        repeats = np.zeros(len(keys), dtype=bool)
        repeats[order[1:]] = np.diff(keys[order]) == 0
        return repeats

    def unreturned(self) -> NDArray[np.bool_]:
        """Per arc i ← j: whether j ← i of the same weight is missing. For arcs without repeats."""
        forward = np.argsort(self.receivers * self.n + self.senders, kind="stable")
        backward = np.argsort(self.senders * self.n + self.receivers, kind="stable")
        common = np.maximum(np.gcd(self.numerators, self.denominators), 1)
        numerators, denominators = self.numerators // common, self.denominators // common
        missing = np.empty(len(forward), dtype=bool)
        missing[forward] = (
            (self.receivers[forward] != self.senders[backward])
            | (self.senders[forward] != self.receivers[backward])
            | (numerators[forward] != numerators[backward])
            | (denominators[forward] != denominators[backward])
        )
        return missing

    def over_common_denominator(self) -> tuple[int, NDArray[Any], NDArray[Any]]:
        """(D, arc weights times D, self weights times D): all integers, so all exact.

        The arrays are int64 where the numbers surely fit, Python integers (object) where not.
        """
        denominators = distinct(self.denominators)
        if denominators and denominators[0] < 1:
            arc = int(np.argmin(self.denominators))
            raise InvalidRound(
                f"arc {self.receivers[arc]} ← {self.senders[arc]} "
                f"has denominator {self.denominators[arc]}"
            )
        scale = int(np.lcm.reduce(np.array([1, *denominators], dtype=object)))
        largest = largest_size(self.numerators)
        fits = scale * (largest + 1) * (self.degree + 1) < 2**62
        kind = np.int64 if fits else object
        factor = (scale // self.denominators) if fits else scale // self.denominators.astype(object)
        arcs = self.numerators.astype(kind) * factor
        leftover = np.full(self.n, scale, dtype=kind)
        np.subtract.at(leftover, self.receivers, arcs)
        return scale, arcs, leftover

    # -- interchange and comparison ----------------------------------------------------------

    def to_networkx(self) -> networkx.Graph[int] | networkx.DiGraph[int]:
        """As a networkx graph with exact `weight`s (a `DiGraph` sender → receiver if directed).

        Edges carry `origin`, the label of the line that added them, where it is known. Self
        loops are left out: they are what remains to 1.
        """
        import networkx

        arcs = self.weights_by_arc()
        symmetric = all(arcs.get((j, i)) == w for (i, j), w in arcs.items())
        graph: Any = networkx.Graph() if symmetric else networkx.DiGraph()
        graph.add_nodes_from(range(self.n))
        for (i, j), weight, origin in zip(arcs, arcs.values(), self.origins, strict=True):
            label = {"origin": Origin(origin).label} if origin else {}
            graph.add_edge(j, i, weight=weight, **label)
        return graph

    def weights_by_arc(self) -> dict[tuple[int, int], Fraction]:
        """{(receiver, sender): exact weight}, in the order of the arcs."""
        pairs = zip(self.receivers.tolist(), self.senders.tolist(), strict=True)
        weights = map(Fraction, self.numerators.tolist(), self.denominators.tolist())
        return dict(zip(pairs, weights, strict=True))

    def _canonical(self) -> tuple[IntArray, ...]:
        """The arcs in one order, their weights in lowest terms."""
        order = np.lexsort((self.senders, self.receivers))
        common = np.maximum(np.gcd(self.numerators, self.denominators), 1)
        weights = self.numerators // common, self.denominators // common
        return tuple(array[order] for array in (self.receivers, self.senders, *weights))

    def __eq__(self, other: object) -> bool:
        """Whether the mixing matrices are the same, exactly; origins do not count."""
        if not isinstance(other, Round):
            return NotImplemented
        if self.n != other.n or len(self.receivers) != len(other.receivers):
            return False
        pairs = zip(self._canonical(), other._canonical(), strict=True)
        return all(np.array_equal(one, two) for one, two in pairs)

    def __hash__(self) -> int:
        return hash((self.n, *(array.tobytes() for array in self._canonical())))

    # -- display -----------------------------------------------------------------------------

    def draw(self, path: str | Path | None = None) -> Figure:
        """Draw the round; see `Sequence.draw`."""
        from basegraph.topologies.core.sequence import Sequence

        return Sequence([self], spec="round").draw(path)

    def _repr_html_(self) -> str:
        return round_html(self)

    def __repr__(self) -> str:
        return f"<round on {self.n} nodes: {len(self.receivers)} arcs, degree {self.degree}>"


def _pair(argument: str, pair: object) -> tuple[int, int]:
    """Two nodes, refused unless they are integers; whether there are such nodes is asked later."""
    try:
        i, j = map(operator.index, pair)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise InvalidArgument(argument, pair, "must be a pair of nodes, integers") from None
    return i, j
