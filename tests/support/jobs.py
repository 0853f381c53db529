"""torchrun in the background: what its nodes say, and signals for it and for them."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

from support.forks import Forked
from support.launch import TORCHRUN, environment


class Job:
    """torchrun in the background, its output in a file.

    Args:
        log: The file.
        arguments: Of torchrun, as `support.launch.command` makes them.
        forks: Whether torchrun and its nodes are forks, which need not import anything.

    """

    def __init__(self, log: Path, arguments: list[str], *, forks: bool = True) -> None:
        self.log = log
        log.touch()
        self.process: subprocess.Popen[bytes] | Forked
        if forks:
            self.process = Forked("torchrun", arguments, log)
        else:
            with open(log, "w", encoding="utf-8") as file:
                self.process = subprocess.Popen(
                    [*TORCHRUN, *arguments],
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env=environment(),
                )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match in what it says; however long that takes, unless it ends before."""
        while True:
            ended = self.process.poll() is not None
            text = self.log.read_text(encoding="utf-8")
            match = re.search(pattern, text)
            if match:
                return match
            assert not ended, f"{pattern} not seen: {text[-3000:]}"
            time.sleep(0.1)

    def worker(self, rank: int) -> int:
        """The process of a node."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                name = (folder / "comm").read_text().strip()
                words = (folder / "environ").read_bytes().split(b"\0")
            except OSError:  # gone already
                continue
            is_rank = name == f"node {rank}" or f"RANK={rank}".encode() in words
            if int(parent) == self.process.pid and is_rank:
                return int(folder.name)
        raise AssertionError(f"no node {rank}")

    def stop(self) -> str:
        """Tell it to stop; everything it has said."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return self.log.read_text(encoding="utf-8")

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()

    def kill(self, *nodes: int) -> str:
        """kill -9, and wait until its nodes have ended by themselves; everything they have said."""
        self.process.kill()
        return self.end_of(*nodes)

    def end_of(self, *nodes: int) -> str:
        """Wait until it and these nodes have ended by themselves; everything they have said."""
        self.process.wait()
        while any(_runs(node) for node in nodes):
            time.sleep(0.1)
        return self.log.read_text(encoding="utf-8")


def _runs(process: int) -> bool:
    """Whether the process exists and has not ended; a zombie has."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
