"""The engine that trains all nodes in this process."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from basegraph.data.dataset import Dataset
from basegraph.engines.captured.engine import CapturedEngine
from basegraph.engines.contract import EngineProblem
from basegraph.engines.device import pick_device
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.wires.catalog import wire


def single_process_engine(
    dataset: Dataset, problems: Sequence[EngineProblem]
) -> StackedEngine | CapturedEngine:
    """The captured engine on a GPU, unless the configuration forbids it; else the stacked one.

    Models that are sent by another wire than float32 are mixed by the stacked engine, on a GPU too.

    Args:
        dataset: What all runs are trained on.
        problems: One per run; they may differ in seed, learning rate, α and topology.

    """
    config = problems[0].config
    plain = wire(config.wire).keeps(torch.float32)
    if plain and config.capture and pick_device(config.device).type == "cuda":
        return CapturedEngine(dataset, problems)
    return StackedEngine(dataset, problems)
