"""Files: written atomically, locked, read with limits, and with a record of what made them.

- `replacing` and `writable` (`files.py`): an output file is refused before the work starts, and
  is either whole or not there. `CannotWrite` says which file could not be written.
- `locked` (`lock.py`): a folder held by one process at a time.
- `read_text`, `read_json`, `read_toml` (`inputs.py`): files of others, read up to a limit.
- `provenance` (`_provenance.py`): command, versions, commit, machine and data of a result.
- `available_memory` (`memory.py`): how much there is for what is about to be read.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> from basegraph.storage import replacing
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "result.txt"
...     with replacing(path) as temporary:
...         _ = temporary.write_text("42")
...         path.exists()
...     path.read_text()
False
'42'
"""

from basegraph.storage._provenance import provenance
from basegraph.storage.files import AlreadyExists, CannotWrite, replacing, writable
from basegraph.storage.inputs import BadFile, read_json, read_text, read_toml
from basegraph.storage.lock import locked
from basegraph.storage.memory import available_memory

__all__ = [
    "AlreadyExists",
    "BadFile",
    "CannotWrite",
    "available_memory",
    "locked",
    "provenance",
    "read_json",
    "read_text",
    "read_toml",
    "replacing",
    "writable",
]
