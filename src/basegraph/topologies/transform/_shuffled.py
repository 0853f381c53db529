"""Renaming all nodes again and again, so that no node keeps its neighbors."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least
from basegraph.topologies.core.random import philox
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.core.sequence import Sequence, Topology
from basegraph.topologies.two_states.sequence import TwoStateSequence, refuse_two_states

_NAMES = (0, 0, 0, 2)
"""Where the generator of a turn begins: apart from what random topologies draw."""


def shuffled(
    topology: Topology | TwoStateSequence, every: int | None = None, seed: int = 0
) -> Shuffled:
    """The same rounds among nodes that are renamed every so many steps.

    At step t, W becomes P W Pᵀ with a permutation P drawn from (seed, t // every). So neighbors
    change, and nothing else does: degree, weights and bytes are those of the topology. Where
    `every` is a multiple of the period, as by default, every period stays as exact as it was:
    P (J/n) Pᵀ = J/n. `bg.verify` of the topology itself proves that.

    The first question in a turn costs O(n log n), all others what they cost before.

    Args:
        topology: A sequence.
        every: Steps between two renamings; None: its period.
        seed: What the names are drawn from, below 2**64.

    Returns:
        A random topology: it never repeats.

    Raises:
        InvalidArgument: If the topology is random itself, or an argument is out of range.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> t = shuffled(topology("ring", n=9))
        >>> t.spec, [sorted(t.neighbors(0, step)) for step in (0, 1)]
        ('ring:shuffled=1', [[2, 3], [5, 7]])

    """
    refuse_two_states("topology", topology, "only rounds of one vector can be shuffled")
    if not isinstance(topology, Sequence):
        raise InvalidArgument("topology", topology, "must repeat: it is random already")
    every = topology.period if every is None else at_least(1, below=2**62, every=every)
    return Shuffled(topology, every, at_least(0, below=2**64, seed=seed))


class Shuffled(Topology):
    """See `shuffled`."""

    period = None

    def __init__(self, sequence: Sequence, every: int, seed: int) -> None:
        self._sequence, self._every, self._seed = sequence, every, seed
        separator = "," if ":" in sequence.spec else ":"
        drawn_from = f",shuffle_seed={seed}" if seed else ""
        self.spec = f"{sequence.spec}{separator}shuffled={every}{drawn_from}"
        self.n = sequence.n
        self.max_degree = sequence.max_degree
        self.promised_degree = sequence.promised_degree
        self.symmetric = sequence.symmetric
        self.note = sequence.note
        self._latest: tuple[int, IntArray, IntArray] | None = None

    def _names(self, step: int) -> tuple[IntArray, IntArray]:
        """Of this step: the node that stands for each of the sequence's, and the inverse."""
        turn, latest = step // self._every, self._latest
        if latest is None or latest[0] != turn:
            names = np.argsort(
                philox(self._seed, turn % 2**64, _NAMES).random_raw(self.n), kind="stable"
            )
            latest = self._latest = turn, names, np.argsort(names)
        return latest[1:]

    def _round(self, step: int) -> Round:
        r, (names, _) = self._sequence.round(step), self._names(step)
        ends = names[r.receivers], names[r.senders]
        return Round(r.n, *ends, r.numerators, r.denominators, r.origins)

    def _neighbors(self, i: int, step: int) -> dict[int, Fraction]:
        names, stands_for = self._names(step)
        heard = self._sequence.neighbors(int(stands_for[i]), step)
        return {int(names[j]): weight for j, weight in heard.items()}

    def _listeners(self, i: int, step: int) -> tuple[int, ...]:
        names, stands_for = self._names(step)
        hear = self._sequence.listeners(int(stands_for[i]), step)
        return tuple(sorted(names[list(hear)].tolist()))

    def __reduce__(self) -> tuple[Callable[..., Shuffled], tuple[Sequence, int, int]]:
        return shuffled, (self._sequence, self._every, self._seed)
