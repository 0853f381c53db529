"""Every way in which nodes in one process are mixed."""

from __future__ import annotations

import torch

from basegraph.engines.captured.tables import RoundTables
from basegraph.engines.stacked.mixer import dense, few_neighbors
from basegraph.engines.stacked.peers import peers_of


def forms(t, dtype):
    """Every way to mix by the first round of a topology."""
    peers, weights = (torch.tensor(part) for part in peers_of(t[0]))
    mixes = {
        "gathered": few_neighbors(peers, weights.to(dtype)),
        "dense": dense(torch.tensor(t[0].matrix().toarray(), dtype=dtype)),
    }
    for gathers in (True, False):
        tables = RoundTables([t])
        tables.gathers = gathers
        now = {name: table[0] for name, table in tables.of([[0]]).items()}
        now = {name: v.to(dtype) if v.is_floating_point() else v for name, v in now.items()}
        mixes[f"table, {'gathered' if gathers else 'dense'}"] = tables.mix(now)
    return mixes


FORMS = ["gathered", "dense", "table, gathered", "table, dense"]
