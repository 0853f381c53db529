"""CECA: the exact average in ceil(log2 n) rounds for every n, with two vectors per node."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from basegraph.topologies.core.closed_form import identity, refuse_beyond_memory
from basegraph.topologies.core.integers import node_count
from basegraph.topologies.core.round import Round
from basegraph.topologies.two_states.round import Heard, TwoStateRound
from basegraph.topologies.two_states.sequence import TwoStateSequence


class Ceca(TwoStateSequence):
    """The sequence that `ceca` builds; a round is a shift and two weights, O(1) for a node."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.spec = "ceca"
        self.period = max(1, (n - 1).bit_length())
        self.promised_degree = 1

    @property
    def max_degree(self) -> int:
        """1: one message out and one in; 0 for a single node."""
        return min(1, self.n - 1)

    def __reduce__(self) -> tuple[Any, ...]:
        return ceca, (self.n,)

    def sends(self, step: int) -> str:
        """Which vector every node sends at a step: "x" or "y"."""
        return self._rule(self._phase(step))[1].vector

    def _rule(self, phase: int) -> tuple[int, Heard]:
        """(u, what is heard): every node i hears i - u."""
        below = self.period - 1 - phase  # digits of n - 1 after this one
        m, digit = (self.n - 1) >> (below + 1), (self.n - 1) >> below & 1
        if digit:
            return m + 1, Heard("x", Fraction(1, 2), Fraction(m + 1, 2 * m + 1))
        return m, Heard("y", Fraction(m, 2 * m + 1), Fraction(1, 2))

    def _round(self, phase: int) -> TwoStateRound:
        n = self.n
        refuse_beyond_memory(n, 132 * n, f"a round of {self.spec} has {2 * n} arcs")
        if n == 1:
            return TwoStateRound(1, identity(2))
        shift, heard = self._rule(phase)
        sent = (np.arange(n) - shift) % n + (n if heard.vector == "y" else 0)
        numerators = np.repeat([heard.x.numerator, heard.y.numerator], n)
        denominators = np.repeat([heard.x.denominator, heard.y.denominator], n)
        return TwoStateRound(
            n, Round(2 * n, np.arange(2 * n), np.tile(sent, 2), numerators, denominators)
        )

    def _neighbors(self, i: int, phase: int) -> dict[int, Heard]:
        if self.n == 1:
            return {}
        shift, heard = self._rule(phase)
        return {(i - shift) % self.n: heard}

    def _listeners(self, i: int, phase: int) -> tuple[int, ...]:
        return () if self.n == 1 else ((i + self._rule(phase)[0]) % self.n,)


def ceca(n: int) -> Ceca:
    """CECA: ceil(log2 n) rounds for every n, one message each way, two vectors per node.

    Node i keeps x, the average over itself and the m nodes before it on the circle, and y, the
    average over these m without itself. m is 0 at first, and the binary digits d of n - 1, the
    most significant first, are the rounds, after each of which m is 2m + d:

    - d = 1: hear x' from node i - m - 1; x ← (x + x')/2, y ← (m y + (m+1) x')/(2m+1);
    - d = 0: hear y' from node i - m; x ← ((m+1) x + m y')/(2m+1), y ← (y + y')/2.

    In the end m = n - 1 and x is the average of all, whatever y was at the start. The proof is in
    docs/explanation/two-vectors.md. A single node has one round in which nothing happens.

    Args:
        n: Number of nodes.

    Returns:
        A two-state sequence of period ceil(log2 n).

    Raises:
        InvalidArgument: If n is not an integer ≥ 1.

    Example:
        >>> t = ceca(25)
        >>> t
        <ceca, 25 nodes, 5 rounds, degree 1, two vectors per node>
        >>> t.neighbors(0, step=1)
        {23: Heard(vector='x', x=Fraction(1, 2), y=Fraction(2, 3))}

    References:
        Ding et al., DSGD-CECA: Decentralized SGD with Communication-Optimal Exact Consensus
        Algorithm, ICML 2023 (the two-port form).

    """
    return Ceca(node_count(n))
