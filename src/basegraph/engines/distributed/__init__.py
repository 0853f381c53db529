"""The distributed engine: one node per process, `torch.distributed` underneath.

A step of a node goes one way, from its gradient to the network:

1. `NodeMethod` (`method.py`) makes the step of a method. `SplitStep` (`split_step.py`) walks
   through it block by block (`blocks.py`), around one exchange of everything that is sent.
2. `Node` (`node.py`) is the process as a node: its parameters in one vector (`parameters.py`), the
   model's buffers (`buffers.py`), its options (`options.py`), how it starts (`initial.py`), and
   what it saves at a fault.
3. `Schedule` (`neighbors.py`) says with whom a node exchanges at a step, if at all: the mixer
   below it knows neither local steps nor the topology.
4. `DistributedMixer` (`mixer.py`) sends and receives. Every message is announced by a stamp
   (`stamp.py`), and waiting is measured (`traffic.py`).

`ExactAverage` (`exact_average.py`) is behind `consensus()` and `averaged()`; `collectives.py` has
all-reduce and its kin, bounded in time. Where nodes join and leave, `Turnover` (`turnover.py`)
meets the others at the steps of a `MeetingPlan` (`meeting_plan.py`), and hands a model to newcomers
(`handover.py`). Subpackages: `membership` (who the nodes are), `recovery`
(what they save and how they restart), `shutdown` (requests to stop). `DistributedEngine`
(`engine.py`) makes runs of `basegraph.training` with all of it, the optimizers of `basegraph.optim`
are faces of it.

>>> import basegraph as bg
>>> from basegraph.engines.distributed import Schedule
>>> schedule = Schedule(bg.topology("base:k=1", n=5), node=0)
>>> [schedule.at(step).hears for step in range(3)]
[((1, 0.5),), ((2, 0.5),), ((4, 0.8),)]
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.engines.distributed.engine import DistributedEngine
    from basegraph.engines.distributed.method import NodeMethod
    from basegraph.engines.distributed.mixer import DistributedMixer
    from basegraph.engines.distributed.neighbors import Neighbors, Schedule
    from basegraph.engines.distributed.node import Node
    from basegraph.engines.distributed.options import NodeOptions
else:
    _HOMES = {
        "DistributedEngine": "basegraph.engines.distributed.engine",
        "DistributedMixer": "basegraph.engines.distributed.mixer",
        "Neighbors": "basegraph.engines.distributed.neighbors",
        "Node": "basegraph.engines.distributed.node",
        "NodeMethod": "basegraph.engines.distributed.method",
        "NodeOptions": "basegraph.engines.distributed.options",
        "Schedule": "basegraph.engines.distributed.neighbors",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "DistributedEngine",
    "DistributedMixer",
    "Neighbors",
    "Node",
    "NodeMethod",
    "NodeOptions",
    "Schedule",
]
