"""Decentralized optimizers for PyTorch scripts, with one node per process.

- `DecentralizedOptimizer` (`decentralized.py`): a method of the catalogue, such as `dsgdm` or `d2`.
- `Gossip` (`gossip.py`): any torch optimizer, with gossip after its step.

Both are `torch.optim.Optimizer`s with `consensus()`, `averaged()`, `traffic`, `gossip_step` and
`join()` (`node_optimizer.py`). Started with torchrun, every process is a node, or with `mesh=`
every group of processes that share a model; without torchrun, the process is a single node and the
script trains as usual. `checkpoints` saves all nodes at once, and loads them again.

Everything here needs torch: `pip install 'basegraph[train]'`.

>>> import torch, warnings
>>> from basegraph.optim import Gossip
>>> model = torch.nn.Linear(2, 1)
>>> with warnings.catch_warnings():
...     warnings.simplefilter("ignore")  # a single node: no torchrun
...     optimizer = Gossip(torch.optim.SGD(model.parameters(), lr=0.1), topology="base:k=1")
>>> model(torch.ones(1, 2)).sum().backward()
>>> optimizer.step()
>>> optimizer.gossip_step
1
>>> torch.distributed.destroy_process_group()  # at the end of a script
"""

from typing import TYPE_CHECKING

from basegraph.extras import require
from basegraph.lazy import lazy_names

require("torch")

if TYPE_CHECKING:
    from basegraph.optim.decentralized import DecentralizedOptimizer
    from basegraph.optim.gossip import Gossip
else:
    _HOMES = {
        "DecentralizedOptimizer": "basegraph.optim.decentralized",
        "Gossip": "basegraph.optim.gossip",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = ["DecentralizedOptimizer", "Gossip"]
