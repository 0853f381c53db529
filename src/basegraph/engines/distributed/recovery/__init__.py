"""What nodes save, and how any number of them restarts from it.

- `NodeFiles` (`node_files.py`): the files of one node in the folder of a job.
- `restart` (`survivors.py`): all nodes choose the files that belong together and take the average
  of the models in them; `Restart` is the outcome.
- `generation.py`: which start of a job this is, so that a node of an earlier one saves nothing.

>>> import tempfile
>>> from pathlib import Path
>>> from basegraph.engines.distributed.recovery import generation
>>> with tempfile.TemporaryDirectory() as folder:
...     generation.begin(Path(folder), 3)
...     generation.last(Path(folder))
3
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.engines.distributed.recovery.node_files import NodeFiles, NotSaved
    from basegraph.engines.distributed.recovery.survivors import Restart, restart
else:
    _HOMES = {
        "NodeFiles": "basegraph.engines.distributed.recovery.node_files",
        "NotSaved": "basegraph.engines.distributed.recovery.node_files",
        "Restart": "basegraph.engines.distributed.recovery.survivors",
        "restart": "basegraph.engines.distributed.recovery.survivors",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = ["NodeFiles", "NotSaved", "Restart", "restart"]
