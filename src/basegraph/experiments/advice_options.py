"""What `basegraph advise` chooses from."""

from __future__ import annotations

TOPOLOGIES = (
    "base:k=1",
    "short:k=1,home=true",
    "short:k=1",
    "steady",
    "one-peer-exponential",
    "base:k=2",
    "short:k=2",
    "base:k=4",
    "exponential",
    "torus",
    "ring",
    "ceca",
)
"""In the order in which equals are named."""
ALL_REDUCE_FORMS = {"all-reduce": "ring", "all-reduce-halving": "halving"}
"""Forms of DDP's all-reduce, as the network model calls them -> as people do."""
METHOD = "dsgdm"
TWO_STATE_METHOD = "dsgdm-ceca"
