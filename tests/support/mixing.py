"""Every way in which nodes in one process are mixed."""

from __future__ import annotations

import torch

import basegraph as bg
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


def spec_for(name, spec="base:k=1"):
    """A topology that a method can be trained on: this one, or `ceca` for two vectors per node."""
    return "ceca" if bg.algorithm(name).vectors == 2 else spec


FORMS = ["gathered", "dense", "table, gathered", "table, dense"]
