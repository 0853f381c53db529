"""Consensus over a wire: how close nodes come when messages are rounded or incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from basegraph.engines.stacked.wired import WiredMixer
from basegraph.errors import InvalidArgument
from basegraph.topologies.analysis._gossip import disagreement, gaussian_start
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.sequence import TwoStateSequence
from basegraph.wires.catalog import require_wire, wire
from basegraph.wires.contract import Wire


def measure_over_wires(
    topologies: Sequence[Topology | TwoStateSequence],
    steps: int,
    seeds: list[int],
    wires: Sequence[str],
    size: int,
) -> list[dict[str, Any]]:
    """The consensus error by round, per number, and how far the average has moved.

    Args:
        topologies: Which nodes talk when.
        steps: How many rounds.
        seeds: Of the Gaussian starts.
        wires: Specs of wires.
        size: Numbers per node, in float32.

    Raises:
        InvalidArgument: If there is no such wire, or it does not go with a topology.

    """
    chosen = [wire(spec) for spec in wires]
    for t in topologies:
        for one in chosen:
            if isinstance(t, TwoStateSequence):
                raise InvalidArgument("wire", one.spec, f"is for one vector per node, not {t.spec}")
            require_wire(one, t)
    return [
        {
            "n": t.n,
            "topology": t.spec,
            "wire": one.spec,
            "degree": t.max_degree,
            "vectors_per_node": 1,
            "seed": seed,
            "step": step,
            "error": error,
            "average_moved": moved,
        }
        for t in topologies
        if isinstance(t, Topology)
        for one in chosen
        for seed in seeds
        for step, (error, moved) in enumerate(_errors(t, one, seed, steps, size))
    ]


def _errors(t: Topology, one: Wire, seed: int, steps: int, size: int) -> list[tuple[float, float]]:
    x_nd = torch.tensor(gaussian_start(t.n, seed, size), dtype=torch.float32)
    mixer, average = WiredMixer(t, x_nd.device, x_nd.dtype, one), x_nd.double().mean(dim=0)
    errors = []
    for step in range(steps + 1):
        moved = (x_nd.double().mean(dim=0) - average).abs().max()
        errors.append((disagreement(x_nd.numpy()) / size, float(moved)))
        if step < steps:
            x_nd = mixer.round(step)(x_nd)
    return errors
