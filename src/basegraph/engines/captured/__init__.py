"""The stacked step as one CUDA graph, for a GPU.

`CapturedEngine` captures the step once and replays it. What changes from step to step lies in
tables on the device, a whole epoch at a time: `RoundTables` makes those of the rounds, `Prefetch`
makes the next epoch's in a thread. `CapturedStep` is the graph; `Compiled` is a function that
torch.compile takes, or that goes on as it is where the compiler fails.

>>> from basegraph.engines.captured import RoundTables
>>> from basegraph.topologies.catalog import topology
>>> RoundTables([topology("base", n=2)]).of([[0]])["peers"]
tensor([[[1],
         [0]]])
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.engines.captured.engine import CapturedEngine
    from basegraph.engines.captured.graph import CapturedStep, Compiled
    from basegraph.engines.captured.prefetch import Prefetch
    from basegraph.engines.captured.tables import RoundTables
else:
    _HOMES = {
        "CapturedEngine": "basegraph.engines.captured.engine",
        "CapturedStep": "basegraph.engines.captured.graph",
        "Compiled": "basegraph.engines.captured.graph",
        "Prefetch": "basegraph.engines.captured.prefetch",
        "RoundTables": "basegraph.engines.captured.tables",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "CapturedEngine",
    "CapturedStep",
    "Compiled",
    "Prefetch",
    "RoundTables",
]
