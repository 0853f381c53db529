"""The consensus experiments (Sec. 6.1, App. F.2 and F.3.2 of the paper)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from basegraph.errors import BasegraphError
from basegraph.experiments.store import ResultFolder
from basegraph.topologies.analysis._gossip import consensus_error, gaussian_start
from basegraph.topologies.catalog import topology
from basegraph.topologies.core.sequence import Sequence as PeriodicSequence
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.sequence import TwoStateSequence

BASELINES = ["one-peer-exponential", "exponential", "ring", "torus"]


@dataclass(frozen=True)
class Figure:
    """One figure of the paper's set."""

    name: str
    sizes: tuple[int, ...]
    steps: int
    specs: tuple[str, ...]


FIGURES = (
    Figure(
        "consensus-21-25",
        (21, 22, 23, 24, 25),
        40,
        ("base:k=1", "base:k=2", "base:k=3", "base:k=4", *BASELINES),
    ),
    Figure(
        "consensus-5000",
        (5000,),
        40,
        ("base:k=1", "base:k=2", "base:k=3", "base:k=4", *BASELINES),
    ),
    Figure(
        "consensus-powers-of-two",
        (16, 64, 1024),
        20,
        ("base:k=1", "base:k=3", "one-peer-hypercube", *BASELINES),
    ),
)


WIRED_SIZE = 1024
"""Numbers per node where they come over a wire: a wire has blocks of them."""


def measure(
    topologies: Iterable[Topology | TwoStateSequence],
    steps: int,
    seeds: list[int],
    wires: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The consensus error of every topology from every Gaussian start, as rows for a table.

    Args:
        topologies: Which nodes talk when.
        steps: How many rounds.
        seeds: Of the starts.
        wires: Specs of wires. Without any, nodes have one number each and mix it in float64.
            Over a wire they have `WIRED_SIZE` in float32, and the error is that of one of them; the
            rows then say how far the average over nodes has moved.

    """
    if wires:
        from basegraph.experiments.wired import measure_over_wires

        return measure_over_wires(list(topologies), steps, seeds, wires, WIRED_SIZE)
    return [
        {
            "n": t.n,
            "topology": t.spec,
            "degree": t.max_degree,
            "vectors_per_node": t.states if isinstance(t, TwoStateSequence) else 1,
            "seed": seed,
            "step": step,
            "error": float(error),
        }
        for t in topologies
        for seed in seeds
        for step, error in enumerate(consensus_error(t, gaussian_start(t.n, seed), steps))
    ]


def same_rounds(first: str, second: str, n: int) -> bool:
    """Whether two specs give exactly the same sequence on n nodes."""
    a, b = topology(first, n), topology(second, n)
    assert isinstance(a, PeriodicSequence)
    assert isinstance(b, PeriodicSequence)
    return a.period == b.period and all(x == y for x, y in zip(a, b, strict=True))


def equivalences(sizes: Iterable[int]) -> list[tuple[str, str, int]]:
    """What the paper says is the same on these numbers of nodes, checked round by round."""
    claims: list[tuple[str, str, int]] = []
    for n in sizes:
        if n == 24:
            claims.append(("base:k=3", "base:k=4", n))
        if n & (n - 1) == 0:
            claims.append(("base:k=1", "one-peer-hypercube", n))
            claims.append(("base:k=1", "base:k=2", n))
            claims.append(("base:k=3", "base:k=4", n))
    for first, second, n in claims:
        if not same_rounds(first, second, n):
            raise BasegraphError(f"{first} and {second} differ at n={n}, unlike the paper says")
    return claims


def omitted(spec: str, n: int, claims: list[tuple[str, str, int]]) -> bool:
    """Whether the paper leaves this curve out as equal to another (the hypercube is shown)."""
    return any(spec == second and n == m and "base" in second for _, second, m in claims)


def reproduce(folder: ResultFolder, seeds: list[int]) -> list[str]:
    """Write every figure as PNG, SVG and CSV; returns the equivalences found to hold."""
    from basegraph.plots.consensus import draw_consensus

    said: list[str] = []
    for figure in FIGURES:
        claims = equivalences(figure.sizes)
        said += [f"n={n}: {first} is the same as {second}" for first, second, n in claims]
        rows = measure(
            (
                topology(spec, n)
                for n in figure.sizes
                for spec in figure.specs
                if not omitted(spec, n, claims)
            ),
            figure.steps,
            seeds,
        )
        folder.table(f"{figure.name}.csv", rows)
        where = {n: f" at n = {n}" if len(claims) == 1 else "" for n in figure.sizes}
        same = dict.fromkeys(f"{b} is the same as {a}{where[n]}" for a, b, n in claims)
        paths = [folder / f"{figure.name}.{suffix}" for suffix in ("png", "svg")]
        draw_consensus(rows, paths, note="; ".join(same))
    return said


def outputs() -> list[str]:
    """The files that `reproduce` writes."""
    return [f"{figure.name}.{suffix}" for figure in FIGURES for suffix in ("csv", "png", "svg")]
