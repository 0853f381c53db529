"""The product of two sequences: average inside groups, then across them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from basegraph.topologies.core.closed_form import refuse_beyond_memory
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Sequence, rebuilt
from basegraph.topologies.transform.copies import spread, tiled
from basegraph.topologies.two_states.sequence import refuse_two_states


class Product(Sequence):
    """p groups of q nodes run `inner` side by side; then node r of every group runs `outer`.

    Node i is node i mod q of group i // q. If both sequences reach exact consensus, so does the
    product, in inner.period + outer.period rounds: after the first stage every group holds its own
    average, and after the second the average of those.
    """

    def __init__(
        self, inner: Sequence, outer: Sequence, spec: str, *, promised_degree: int | None = None
    ) -> None:
        for part in (inner, outer):
            refuse_two_states("sequence", part, "a product is of n × n rounds, as those of short")
        self.inner = inner
        self.outer = outer
        self.spec = spec
        self.promised_degree = promised_degree
        self.n = inner.n * outer.n
        self.period = inner.period + outer.period
        self.max_degree = max(inner.max_degree, outer.max_degree)
        self.symmetric = inner.symmetric and outer.symmetric

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt(self)

    def _round(self, phase: int) -> Round:
        refuse_beyond_memory(self.n, 33 * self.n, f"a round of {self.spec} has {self.n} nodes")
        if phase < self.inner.period:
            return tiled(self.inner.round(phase), self.outer.n)
        return spread(self.outer.round(phase - self.inner.period), self.inner.n)

    def _neighbors(self, i: int, phase: int) -> dict[int, Fraction]:
        q = self.inner.n
        group, member = divmod(i, q)
        if phase < self.inner.period:
            heard = self.inner.neighbors(member, phase)
            return {group * q + sender: weight for sender, weight in heard.items()}
        heard = self.outer.neighbors(group, phase - self.inner.period)
        return {sender * q + member: weight for sender, weight in heard.items()}
