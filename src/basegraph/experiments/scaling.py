"""What a step of gossip costs on a network, by the number of nodes, as a table.

The model is that of `basegraph.topologies.analysis.network`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.analysis.network import ALL_REDUCES, Cost, Network, cost

__all__ = ["ALL_REDUCES", "Cost", "Network", "cost", "rows", "thinned"]


def rows(names: list[str], n: int, size: int, network: Network) -> list[dict[str, Any]]:
    """The costs of all names that are defined for n."""
    table: list[dict[str, Any]] = []
    for name in names:
        try:
            total = cost(name, n, size, network)
        except InvalidArgument as refusal:
            if refusal.argument not in ("n", "k"):
                raise
            continue
        table.append({"topology": name, "n": n, **vars(total)})
    return table


def thinned(sizes: list[int], most: int) -> list[int]:
    """At most so many of the sizes, both ends among them, even on a logarithmic scale.

    >>> thinned(list(range(2, 1001)), 5)
    [2, 9, 45, 211, 1000]
    """
    if len(sizes) <= most:
        return sizes
    ordered = np.array(sorted(sizes))
    wanted = np.geomspace(ordered[0], ordered[-1], most)
    nearest = np.abs(ordered[:, None] - wanted).argmin(axis=0)
    return sorted({int(n) for n in ordered[nearest]})
