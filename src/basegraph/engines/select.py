"""The engine that trains all nodes in this process."""

from __future__ import annotations

from collections.abc import Sequence

from basegraph.data.dataset import Dataset
from basegraph.engines.captured.engine import CapturedEngine
from basegraph.engines.contract import EngineProblem
from basegraph.engines.device import pick_device
from basegraph.engines.stacked.engine import StackedEngine


def single_process_engine(
    dataset: Dataset, problems: Sequence[EngineProblem]
) -> StackedEngine | CapturedEngine:
    """The captured engine on a GPU, unless the configuration forbids it; else the stacked one.

    Args:
        dataset: What all runs are trained on.
        problems: One per run; they may differ in seed, learning rate, α and topology.

    """
    config = problems[0].config
    if config.capture and pick_device(config.device).type == "cuda":
        return CapturedEngine(dataset, problems)
    return StackedEngine(dataset, problems)
