"""Sequences made from others, and from graphs.

`Product` averages inside groups, then across them; `SideBySide` runs blocks next to each other;
`tiled` and `spread` copy a round. `stay_home` renames nodes so that no node gives away more than it
keeps, `shuffled` so that no node keeps its neighbors. `from_networkx` makes a topology of any
connected graph, or of several in turn.

Example:
    >>> import networkx as nx
    >>> from_networkx(nx.star_graph(3)).neighbors(1, 0)
    {0: Fraction(1, 4)}

"""

from basegraph.topologies.transform._shuffled import shuffled
from basegraph.topologies.transform._stay_home import stay_home
from basegraph.topologies.transform.copies import spread, tiled
from basegraph.topologies.transform.interchange import from_networkx
from basegraph.topologies.transform.product import Product
from basegraph.topologies.transform.side_by_side import SideBySide

__all__ = ["Product", "SideBySide", "from_networkx", "shuffled", "spread", "stay_home", "tiled"]
