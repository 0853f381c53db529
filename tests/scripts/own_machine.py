"""`basegraph` as if every node had a machine of its own: a folder each, and flags of its own.

Usage: own_machine.py FOLDER FLAG=VALUE,VALUE... -- ARGUMENTS, with a value for every node.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from basegraph.cli import main

if __name__ == "__main__":
    node = int(os.environ["RANK"])
    here = Path(sys.argv[1]) / f"machine-{node}"
    here.mkdir(parents=True, exist_ok=True)
    os.chdir(here)
    end = sys.argv.index("--")
    own = [
        f"{flag}={values.split(',')[node]}"
        for flag, _, values in (word.partition("=") for word in sys.argv[2:end])
    ]
    sys.argv = ["basegraph", *sys.argv[end + 1 :], *own]
    main()
