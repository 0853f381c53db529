"""Checkpoints of all nodes, by `torch.distributed.checkpoint`, and the averaged model as a file.

- `save_checkpoint` (`_save.py`) and `load_checkpoint` (`_load.py`): all nodes in one checkpoint,
  for any number of nodes and of processes in each.
- `save_averaged` (`_average.py`): the average of all models as one safetensors file.

What a node saves is in `contents.py`, how tensors are written and read in `storage.py`, and what
makes a checkpoint complete in `folder.py`.
"""

from typing import TYPE_CHECKING

from basegraph.extras import require
from basegraph.lazy import lazy_names

require("torch")

if TYPE_CHECKING:
    from basegraph.optim.checkpoints._average import save_averaged
    from basegraph.optim.checkpoints._load import Restored, load_checkpoint
    from basegraph.optim.checkpoints._save import NotSaved, save_checkpoint
else:
    _HOMES = {
        "NotSaved": "basegraph.optim.checkpoints._save",
        "Restored": "basegraph.optim.checkpoints._load",
        "load_checkpoint": "basegraph.optim.checkpoints._load",
        "save_averaged": "basegraph.optim.checkpoints._average",
        "save_checkpoint": "basegraph.optim.checkpoints._save",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = ["NotSaved", "Restored", "load_checkpoint", "save_averaged", "save_checkpoint"]
