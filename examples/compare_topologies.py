"""Compare topologies on 25 nodes: rounds, degree, exact proof, and how disagreement falls.

    python examples/compare_topologies.py [FOLDER]

Prints two tables and writes a figure into FOLDER (default: demo).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import basegraph as bg
from basegraph.commands.output import table
from basegraph.plots.canvas import COLOURS, panels, save

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
    x0 = np.random.default_rng(0).standard_normal(N)
    errors = {t.spec: bg.consensus_error(t, x0, STEPS) for t in topologies}
    print()
    table(
        ["topology", *[f"after {step}" for step in SHOWN]],
        [(spec, *[f"{e[step]:.0e}" for step in SHOWN]) for spec, e in errors.items()],
        title="consensus error (1/n) Σ (x_i - mean)² by round, from a Gaussian start",
    )
    figure, (axis,) = panels(1, 1, width=6, height=3.8)
    for t, colour in zip(topologies, COLOURS, strict=False):
        curve = np.maximum(errors[t.spec], 1e-32)
        reached = int(np.argmax(curve < 1e-28)) if (curve < 1e-28).any() else len(curve) - 1
        label = f"{t.spec} ({t.max_degree})"
        axis.semilogy(range(reached + 1), curve[: reached + 1], color=colour, label=label)
        if reached < len(curve) - 1:
            axis.semilogy(reached, curve[reached], "o", color=colour)
    axis.set_xlabel("round")
    axis.set_ylabel("consensus error")
    axis.set_title(f"n = {N}; in brackets: neighbours per round")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save(figure, folder / "consensus.png")
    print(f"\nfigure: {folder / 'consensus.png'}")


if __name__ == "__main__":
    main()
