"""Compare topologies on 25 nodes: rounds, degree, exact proof, and how disagreement falls.

    python examples/compare_topologies.py [FOLDER]

Prints three tables and writes a figure into FOLDER (default: demo).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import basegraph as bg
from basegraph.plots import draw_consensus

N = 25
SPECS = ["base:k=1", "base:k=2", "base:k=3", "base:k=4", "one-peer-exponential", "exponential",
         "ring", "torus"]  # fmt: skip
STEPS = 20
SHOWN = [0, 2, 4, 5, 6, 9, 15, 20]


def proof(t: bg.Topology) -> str:
    """What exact arithmetic says about one period."""
    try:
        return f"exact average after {bg.verify(t).period} rounds"
    except bg.NotFiniteTime as no:
        return "no: " + str(no).partition(": ")[2]


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table with columns as wide as they need to be."""
    lines = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"{title}:")
    for line in lines:
        print("  ".join(map(str.ljust, line, widths)).rstrip())
    print()


def short(value: object) -> str:
    """A number in three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Print the tables, write the figure."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)
    topologies = [bg.topology(spec, n=N) for spec in SPECS]
    table(
        f"{N} nodes",
        ["topology", "rounds", "degree", "proof, in exact arithmetic"],
        [(t.spec, t.period, t.max_degree, proof(t)) for t in topologies],
    )
    diagnostics = [bg.diagnose(t).row() for t in topologies]
    table(
        "what the number of rounds does not say (bg.Diagnostics explains the columns)",
        ["topology", *diagnostics[0]],
        [(spec, *map(short, row.values())) for spec, row in zip(SPECS, diagnostics, strict=True)],
    )
    start = np.random.default_rng(0).standard_normal(N)
    errors = {t: bg.consensus_error(t, start, STEPS) for t in topologies}
    table(
        "consensus error (1/n) Σ (x_i - mean)² by round, from a Gaussian start",
        ["topology", *[f"after {step}" for step in SHOWN]],
        [(t.spec, *[f"{error[step]:.0e}" for step in SHOWN]) for t, error in errors.items()],
    )
    rows = [
        {"n": N, "topology": t.spec, "degree": t.max_degree, "seed": 0, "step": step, "error": e}
        for t, error in errors.items()
        for step, e in enumerate(error.tolist())
    ]
    draw_consensus(rows, [folder / "consensus.png"])
    print(f"figure: {folder / 'consensus.png'}")


if __name__ == "__main__":
    main()
