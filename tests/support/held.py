"""`basegraph`, held at a given place until it is let go: whoever kills it there need not be quick.

Usage: held.py FILE PLACE COUNT ARGUMENTS. Before the COUNT-th time that it comes to the PLACE, it
makes the file, and goes on when the file is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from support.forks import Forked


class Held(Forked):
    """The process, stopped at the place until `end` is called."""

    def __init__(self, file: Path, words: list[str]) -> None:
        self.file, self.log = file, file.with_suffix(".log")
        super().__init__("python", words, self.log, Path(os.devnull))
        while not file.exists():
            assert self.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Signal it, let it go on, and wait for its end: its exit code, and its errors."""
        self.send_signal(number)
        self.file.unlink()
        return self.wait(), self.log.read_text(encoding="utf-8")


@contextmanager
def held(file: Path, place: str, times: int, *arguments: object) -> Iterator[Held]:
    """`basegraph ARGUMENTS` at the place; it does not outlive the block."""
    process = Held(file, list(map(str, [__file__, file, place, times, *arguments])))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


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
