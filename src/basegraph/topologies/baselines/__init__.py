"""What the paper compares with.

Graphs that never change (`ring`, `torus`, `complete`), exponential graphs, static and one-peer
(`exponential`, `one_peer_exponential`, `one_peer_hypercube`), and the random graphs of EquiTopo
(`d_equistatic`, `u_equistatic`, `one_peer_d_equidyn`, `one_peer_u_equidyn`).

Example:
    >>> ring(5).neighbors(0, 0)
    {4: Fraction(1, 3), 1: Fraction(1, 3)}

"""

from basegraph.topologies.baselines._exponential import (
    exponential,
    one_peer_exponential,
    one_peer_hypercube,
)
from basegraph.topologies.baselines.equitopo import (
    d_equistatic,
    one_peer_d_equidyn,
    one_peer_u_equidyn,
    u_equistatic,
)
from basegraph.topologies.baselines.static import complete, ring, torus

__all__ = [
    "complete",
    "d_equistatic",
    "exponential",
    "one_peer_d_equidyn",
    "one_peer_exponential",
    "one_peer_hypercube",
    "one_peer_u_equidyn",
    "ring",
    "torus",
    "u_equistatic",
]
