"""All nodes in one process: one tensor with a leading node axis.

`StackedNodes` holds the models of all nodes, of one run or of several runs side by side;
`StackedMixer` mixes them with a round of a topology; `StackedEngine` makes their steps, one
operation after another; `StackedRun` is the view that a run has of its own nodes.

>>> import torch
>>> from basegraph.engines.stacked import StackedMixer
>>> from basegraph.topologies.catalog import topology
>>> mixer = StackedMixer(topology("base", n=2), torch.device("cpu"), torch.float32)
>>> mixer.round(0)(torch.tensor([[0.0], [1.0]]))
tensor([[0.5000],
        [0.5000]])
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.engines.stacked.engine import StackedEngine
    from basegraph.engines.stacked.mixer import StackedMixer
    from basegraph.engines.stacked.nodes import StackedNodes
    from basegraph.engines.stacked.view import StackedRun
else:
    _HOMES = {
        "StackedEngine": "basegraph.engines.stacked.engine",
        "StackedMixer": "basegraph.engines.stacked.mixer",
        "StackedNodes": "basegraph.engines.stacked.nodes",
        "StackedRun": "basegraph.engines.stacked.view",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "StackedEngine",
    "StackedMixer",
    "StackedNodes",
    "StackedRun",
]
