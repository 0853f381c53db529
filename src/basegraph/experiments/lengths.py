"""How many rounds exact consensus takes (Fig. 5 and App. F.1 of the paper)."""

from __future__ import annotations

from basegraph.errors import InvalidArgument
from basegraph.experiments.store import ResultFolder
from basegraph.topologies.analysis.bounds import shortest_possible, theorem_1_length
from basegraph.topologies.catalog import TOPOLOGIES, TWO_STATE_NAMES
from basegraph.topologies.core.integers import node_count

OUTPUTS = ["lengths.csv", "lengths.png", "lengths.svg"]


def measure(names: list[str], n: int, k: int) -> dict[str, int | None]:
    """The lengths of the named topologies at (n, k); None where one is not defined.

    A two-state sequence has one neighbor a round, k = 1, and its row says what it costs.
    """
    row: dict[str, int | None] = {"k": k, "n": node_count(n)}
    for name in names:
        if name in TWO_STATE_NAMES:
            row[name] = TOPOLOGIES[name](n).period if k == 1 else None
            row[f"{name}_vectors_per_node"] = 2
            continue
        try:
            row[name] = TOPOLOGIES[name](n, k=k).period
        except InvalidArgument as refusal:
            if refusal.argument not in ("n", "k"):
                raise
            row[name] = None
    row["theorem_1"] = theorem_1_length(n, k)
    row["lower_bound"] = shortest_possible(n, k)
    return row


def reproduce(folder: ResultFolder) -> None:
    """The nine panels k = 1..9 of the paper's figure on lengths."""
    from basegraph.plots.lengths import draw_lengths

    names = ["simple-base", "base"]
    rows = [measure(names, n, k) for k in range(1, 10) for n in range(2, 201)]
    folder.table("lengths.csv", rows)
    for suffix in ("png", "svg"):
        draw_lengths(rows, names, folder / f"lengths.{suffix}")
