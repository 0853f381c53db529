"""`basegraph train` as a node that joins and leaves, slow until it is let go.

Usage: live_train.py FILE FLAGS. A step takes 0.3 seconds at least until the file exists.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from basegraph import cli
from basegraph.engines.distributed.engine import DistributedEngine

SLOW = 0.3


def main() -> None:
    file = Path(sys.argv[1])
    advance = DistributedEngine.advance

    def slowly(engine: DistributedEngine) -> None:
        if not file.exists():
            time.sleep(SLOW)
        advance(engine)

    DistributedEngine.advance = slowly  # type: ignore[method-assign]
    sys.argv[1:] = ["train", "--engine", "distributed", *sys.argv[2:]]
    cli.main()


if __name__ == "__main__":
    main()
