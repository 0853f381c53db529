"""The paper's drawings of rounds (Figs. 2-4, App. A-C)."""

from __future__ import annotations

from basegraph.experiments.store import ResultFolder
from basegraph.topologies.catalog import topology

DRAWINGS = [
    *[("hyper-hypercube:k=2", n) for n in (4, 6, 12)],
    *[
        (f"{name}:k={k},isolated=last", n)
        for name in ("simple-base", "base")
        for k in (1, 2)
        for n in range(3, 11)
    ],
    *[("one-peer-hypercube", n) for n in (4, 8)],
    *[("one-peer-exponential", n) for n in (4, 5, 6, 7, 8)],
]
"""(spec, n) of every drawing in the paper, which selects the last isolated nodes."""


def file_name(spec: str, n: int, suffix: str) -> str:
    """Such as base-k1-n6.svg."""
    shown = spec.removesuffix(",isolated=last").replace(":", "-").replace("=", "")
    return f"{shown}-n{n}.{suffix}"


OUTPUTS = [file_name(spec, n, suffix) for spec, n in DRAWINGS for suffix in ("png", "svg")]


def reproduce(folder: ResultFolder) -> None:
    """Draw them all, colored by the line of the pseudo-code that added each edge."""
    from basegraph.plots.rounds import draw_rounds

    for spec, n in DRAWINGS:
        t = topology(spec, n)
        for suffix in ("png", "svg"):
            draw_rounds(t, folder / file_name(spec, n, suffix), steps=t.period or 1)
