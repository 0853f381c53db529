"""The comparison of topologies (Table 1) with measured columns, and the rates of App. E."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log, log2, sqrt
from typing import Any

from basegraph.errors import InvalidArgument, NotFiniteTime
from basegraph.topology.catalog import topology
from basegraph.topology.diagnostics import diagnose
from basegraph.topology.properties import bytes_per_round, consensus_rate
from basegraph.topology.sequence import Sequence
from basegraph.topology.verify import verify

SHRINK = 1e-12
"""Topologies that never reach the average count as there when the error has shrunk this much."""


@dataclass(frozen=True)
class Theory:
    """What the paper's tables say of a topology."""

    spec: str
    rate: str
    degree: str
    nodes: str
    delay: Callable[[int], float]
    """A in the convergence rate σ²/(nε²) + (ζA + σ√A)/ε^1.5 + A/ε (App. E)."""


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
    period-th root. `bytes to consensus` counts what the node that sends most in a period sends
    until the exact average, or, where that never comes, until the error has certainly shrunk by
    `SHRINK`. The last columns are `diagnose`: estimates for n above 300.
    """
    rows = []
    for theory in THEORY:
        try:
            t = topology(theory.spec, n)
        except InvalidArgument:
            continue  # defined for powers of two only
        assert isinstance(t, Sequence)
        rate = consensus_rate(t)
        traffic = bytes_per_round(t, parameters)
        finite, steps = _rounds_to_consensus(t, rate)
        rows.append(
            {
                "topology": theory.spec,
                "rate in theory": theory.rate,
                "rate per period": 0.0 if finite else rate,
                "rate per round": 0.0 if finite else rate ** (1 / t.period),
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
    """App. E evaluated: the order of rounds DSGD needs to reach ε, in units of L F_0."""
    for name, value in (("epsilon", epsilon), ("sigma", sigma), ("zeta", zeta)):
        low = 1e-30 if name == "epsilon" else 0
        if not low <= value <= 1e30:
            raise InvalidArgument(f"--{name}", value, f"must be a number from {low:g} to 1e30")
    rows = []
    for theory in THEORY:
        if theory.nodes != "any" and n & (n - 1):
            continue
        a = theory.delay(n)
        noise = sigma**2 / (n * epsilon**2)
        drift = (zeta * a + sigma * sqrt(a)) / epsilon**1.5
        rest = a / epsilon
        rows.append(
            {
                "topology": theory.spec,
                "A": a,
                "noise term": noise,
                "heterogeneity term": drift,
                "last term": rest,
                "rounds": noise + drift + rest,
            }
        )
    return rows
