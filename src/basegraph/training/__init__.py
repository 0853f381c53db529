"""Runs: from a configuration to a folder of metrics and a checkpoint.

A run has one noun per thing: `RunConfig` is what is asked, `Problem` what is computed (data, model,
topology and method, built from the configuration), `Run` where it stands, `RunFolder` what is on
disk, `Metrics` one row of `metrics.jsonl`. `Loop` makes the steps of one or several runs on an
engine, and a `Watcher` is called on the way. A `Logger` gets the metrics, too.

`train` trains all nodes of a run in this process, `export` gives the model, and `sample` lets a
model of text write; `train_together` trains several runs side by side; `train_distributed` trains
one node per process and survives the loss of nodes.

>>> from basegraph.training import RunConfig
>>> RunConfig(nodes=8, lr=0.05).topology
'base:k=1'
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.errors import Interrupted
    from basegraph.training._export import export
    from basegraph.training._sample import sample
    from basegraph.training._train import train, train_together
    from basegraph.training.config import RunConfig
    from basegraph.training.elastic import train_distributed
    from basegraph.training.folder import RunFolder
    from basegraph.training.loggers import Logger
    from basegraph.training.loop import Loop
    from basegraph.training.metrics import Metrics
    from basegraph.training.problem import Facts, Problem
    from basegraph.training.run import Diverged, Run
    from basegraph.training.watcher import Watcher
else:
    _HOMES = {
        "RunConfig": "basegraph.training.config",
        "Problem": "basegraph.training.problem",
        "Facts": "basegraph.training.problem",
        "Run": "basegraph.training.run",
        "Diverged": "basegraph.training.run",
        "RunFolder": "basegraph.training.folder",
        "Metrics": "basegraph.training.metrics",
        "Watcher": "basegraph.training.watcher",
        "Logger": "basegraph.training.loggers",
        "Loop": "basegraph.training.loop",
        "Interrupted": "basegraph.errors",
        "export": "basegraph.training._export",
        "sample": "basegraph.training._sample",
        "train": "basegraph.training._train",
        "train_together": "basegraph.training._train",
        "train_distributed": "basegraph.training.elastic",
    }
    _NEEDS = dict.fromkeys(_HOMES.keys() - {"RunConfig"}, "torch")
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, _NEEDS)

__all__ = [
    "Diverged",
    "Facts",
    "Interrupted",
    "Logger",
    "Loop",
    "Metrics",
    "Problem",
    "Run",
    "RunConfig",
    "RunFolder",
    "Watcher",
    "export",
    "sample",
    "train",
    "train_distributed",
    "train_together",
]
