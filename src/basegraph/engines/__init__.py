"""Engines: the only place where execution differs.

`contract` says what an engine offers to a run, and what it needs to know of one. Three engines keep
it:

- `stacked`: all nodes in one process, one tensor with a leading node axis;
- `captured`: the same as one CUDA graph, compiled where asked for;
- `distributed`: one node per process, `torch.distributed` underneath.

An algorithm gives the same numbers on all of them, to rounding. `single_process_engine` picks one
of the first two. `checkpoint` holds what they save, `evaluation` how they are evaluated.

>>> from basegraph.engines import pick_device
>>> pick_device("cpu")
device(type='cpu')
"""

from typing import TYPE_CHECKING

from basegraph.extras import require
from basegraph.lazy import lazy_names

require("torch")

if TYPE_CHECKING:
    from basegraph.engines.captured.engine import CapturedEngine
    from basegraph.engines.checkpoint import Checkpoint, CheckpointError
    from basegraph.engines.contract import Engine, EngineProblem, EngineRun
    from basegraph.engines.device import pick_device
    from basegraph.engines.evaluation import Score, Selection
    from basegraph.engines.select import single_process_engine
    from basegraph.engines.stacked.engine import StackedEngine
else:
    _HOMES = {
        "Engine": "basegraph.engines.contract",
        "EngineRun": "basegraph.engines.contract",
        "EngineProblem": "basegraph.engines.contract",
        "Score": "basegraph.engines.evaluation",
        "Selection": "basegraph.engines.evaluation",
        "Checkpoint": "basegraph.engines.checkpoint",
        "CheckpointError": "basegraph.engines.checkpoint",
        "CapturedEngine": "basegraph.engines.captured.engine",
        "StackedEngine": "basegraph.engines.stacked.engine",
        "pick_device": "basegraph.engines.device",
        "single_process_engine": "basegraph.engines.select",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "CapturedEngine",
    "Checkpoint",
    "CheckpointError",
    "Engine",
    "EngineProblem",
    "EngineRun",
    "Score",
    "Selection",
    "StackedEngine",
    "pick_device",
    "single_process_engine",
]
