"""The comparison of topologies (Table 1) with measured columns, and the rates of App. E."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, log, log2, sqrt
from typing import Any

from basegraph.errors import InvalidArgument, NotFiniteTime
from basegraph.topologies.analysis.diagnostics import diagnose
from basegraph.topologies.analysis.message_bytes import bytes_per_round
from basegraph.topologies.analysis.rates import consensus_delay, consensus_rate
from basegraph.topologies.catalog import topology
from basegraph.topologies.core.integers import node_count
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.verify.certificate import verify

SHRINK = 1e-12
"""Topologies that never reach the average count as there when the error has shrunk this much."""

CAUTION = (
    "τ/p is measured: the τ rounds of a period remove at least the share p of squared "
    "disagreement. Columns with constants dropped say how rounds grow with n; do not compare "
    "topologies by them."
)


@dataclass(frozen=True)
class Theory:
    """What the paper's tables say of a topology."""

    spec: str
    rate: str
    degree: str
    nodes: str
    """For which numbers of nodes the paper states the rate."""
    delay: Callable[[int], float]
    """A in the convergence rate σ²/(nε²) + (ζA + σ√A)/ε^1.5 + A/ε (App. E), without constants."""

    def holds(self, n: int) -> bool:
        """Whether the paper's rate is stated for n nodes."""
        return self.nodes == "any" or n & (n - 1) == 0


THEORY = [
    Theory("ring", "1 - O(1/n²)", "2", "any", lambda n: n**2),
    Theory("torus", "1 - O(1/n)", "4", "any", lambda n: n),
    Theory("exponential", "1 - O(1/log2 n)", "⌈log2 n⌉", "any", log2),
    Theory("one-peer-exponential", "O(log2 n)-finite time", "1", "a power of 2", log2),
    Theory("one-peer-hypercube", "O(log2 n)-finite time", "1", "a power of 2", log2),
    *[
        Theory(
            f"base:k={k}",
            f"O(log{k + 1} n)-finite time",
            str(k),
            "any",
            lambda n, k=k: log(n) / log(k + 1),  # type: ignore[misc]
        )
        for k in (1, 2, 3, 4)
    ],
]


def comparison(n: int, parameters: int) -> list[dict[str, Any]]:
    """Table 1 with measured columns beside the theoretical ones, for n nodes.

    `rate per period` is β of Definition 1 for the product of one period, `rate per round` its
    period-th root, `τ/p` the `consensus_delay`. `bytes to consensus` counts what the node that
    sends most in a period sends until the exact average, or, where that never comes, until the
    error has certainly shrunk by `SHRINK`. The last columns are `diagnose`: estimates for n above
    300.
    """
    rows = []
    for theory, t in _defined(n):
        rate = consensus_rate(t)
        traffic = bytes_per_round(t, parameters)
        finite, steps = _rounds_to_consensus(t, rate)
        rows.append(
            {
                "topology": theory.spec,
                "rate in theory": theory.rate,
                "rate per period": 0.0 if finite else rate,
                "rate per round": 0.0 if finite else rate ** (1 / t.period),
                "τ/p": consensus_delay(t),
                "degree in theory": theory.degree,
                "degree": t.max_degree,
                "period": t.period,
                "finite-time": "yes, proved" if finite else "no",
                "nodes in theory": theory.nodes,
                "rounds to consensus": steps,
                "bytes per round": traffic.busiest,
                "mean bytes per round": traffic.mean,
                "bytes to consensus": (
                    None if steps is None else round(traffic.period * steps / t.period)
                ),
                **diagnose(t).row(),
            }
        )
    return rows


def _defined(n: int) -> Iterator[tuple[Theory, Sequence]]:
    """The topologies of the table that exist on n nodes."""
    n = node_count(n)
    for theory in THEORY:
        try:
            t = topology(theory.spec, n)
        except InvalidArgument:
            continue  # defined for powers of two only
        assert isinstance(t, Sequence)
        yield theory, t


def _rounds_to_consensus(t: Sequence, rate: float) -> tuple[bool, int | None]:
    """(whether it is exact, rounds until it is or until the error has shrunk by SHRINK)."""
    try:
        verify(t)
    except NotFiniteTime:
        if rate >= 1:
            return False, None
        return False, t.period * ceil(log(SHRINK) / (2 * log(rate)))
    return True, t.period


def convergence(n: int, epsilon: float, sigma: float, zeta: float) -> list[dict[str, Any]]:
    """The rounds that DSGD needs to reach ε by App. E's rate, in units of L F_0.

    With A = τ/p as measured (the terms and `rounds with τ/p`), and with the paper's order of A,
    whose constants are dropped, where the paper states one: that column compares growth with n,
    and at a given n it may put topologies in another order.
    """
    for name, value in (("epsilon", epsilon), ("sigma", sigma), ("zeta", zeta)):
        low = 1e-30 if name == "epsilon" else 0
        if not low <= value <= 1e30:
            raise InvalidArgument(name, value, f"must be a number from {low:g} to 1e30")
    noise = sigma**2 / (n * epsilon**2)

    def drift(a: float) -> float:
        return (zeta * a + sigma * sqrt(a)) / epsilon**1.5

    rows = []
    for theory, t in _defined(n):
        measured = consensus_delay(t)
        order = theory.delay(n) if theory.holds(n) else None
        rows.append(
            {
                "topology": theory.spec,
                "τ/p": measured,
                "noise term": noise,
                "heterogeneity term": drift(measured),
                "last term": measured / epsilon,
                "rounds with τ/p": noise + drift(measured) + measured / epsilon,
                "A, constants dropped": order,
                "rounds, constants dropped": (
                    None if order is None else noise + drift(order) + order / epsilon
                ),
            }
        )
    return rows
