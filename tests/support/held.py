"""`basegraph`, held at a given place until it is let go: whoever kills it there need not be quick.

Usage: held.py FILE PLACE COUNT ARGUMENTS. Before the COUNT-th time that it comes to the PLACE, it
makes the file, and goes on when the file is gone.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path


@contextmanager
def held(file: Path, place: str, times: int, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The process, which has come there."""
    words = [file, place, times, *arguments]
    process = subprocess.Popen(
        [sys.executable, __file__, *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            while not file.exists():
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


def main() -> None:
    from basegraph import cli
    from basegraph.engines.stacked.engine import StackedEngine
    from basegraph.training.folder import RunFolder

    file, place, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    owner, name = {"step": (StackedEngine, "advance"), "checkpoint": (RunFolder, "save")}[place]
    go_on, came = getattr(owner, name), count(1)

    def method(self: object, *arguments: object) -> None:
        if next(came) == times:
            file.touch()
            while file.exists():
                time.sleep(0.05)
        go_on(self, *arguments)

    setattr(owner, name, method)
    sys.argv[1:] = sys.argv[4:]
    cli.main()


if __name__ == "__main__":
    main()
