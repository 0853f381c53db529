"""Compare topologies on 25 nodes: rounds, degree, exact proof, and how disagreement falls.

    python examples/compare_topologies.py [FOLDER]

Prints three tables and writes a figure into FOLDER (default: demo).
"""

from __future__ import annotations

import sys
from pathlib import Path

import basegraph as bg
from basegraph.cli.output import table
from basegraph.experiments.consensus import measure
from basegraph.plots.consensus import draw_consensus
from basegraph.topologies.analysis.diagnostics import MEANINGS, NO_VERDICT

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


def short(value: object) -> str:
    """A number in three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Print the tables, write the figure."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)
    topologies = [bg.topology(spec, n=N) for spec in SPECS]
    table(
        ["topology", "rounds", "degree", "proof, in exact arithmetic"],
        [(t.spec, t.period, t.max_degree, proof(t)) for t in topologies],
        title=f"{N} nodes",
    )
    print()
    found = [bg.diagnose(t).row() for t in topologies]
    table(
        ["topology", *found[0]],
        [(t.spec, *map(short, row.values())) for t, row in zip(topologies, found, strict=True)],
        title="what length does not say",
    )
    for name, meaning in MEANINGS.items():
        print(f"{name}: {meaning}.")
    print(NO_VERDICT)
    rows = measure(topologies, STEPS, seeds=[0])
    errors = {(row["topology"], row["step"]): row["error"] for row in rows}
    print()
    table(
        ["topology", *[f"after {step}" for step in SHOWN]],
        [(spec, *[f"{errors[spec, step]:.0e}" for step in SHOWN]) for spec in SPECS],
        title="consensus error (1/n) Σ (x_i - mean)² by round, from a Gaussian start",
    )
    draw_consensus(rows, [folder / "consensus.png"])
    print(f"\nfigure: {folder / 'consensus.png'}")


if __name__ == "__main__":
    main()
