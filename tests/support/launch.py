"""Starting scripts with torchrun, and what their nodes have to say."""

from __future__ import annotations

import gc
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SCRIPTS = TESTS / "scripts"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(nodes: int, script: str | Path, *arguments: object) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(nodes),
        "--master-addr", "127.0.0.1", "--master-port", str(free_port()),
        str(SCRIPTS / script), *map(str, arguments),
    ]  # fmt: skip


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def torchrun(
    nodes: int, script: str | Path, *arguments: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(nodes, script, *arguments), capture_output=True, text=True, env=environment()
    )


class Job:
    """torchrun in the background, its output in a file."""

    def __init__(self, log: Path, arguments: list[str]) -> None:
        self.log = log
        self.file = open(log, "w", encoding="utf-8")  # noqa: SIM115
        self.process = subprocess.Popen(
            arguments, stdout=self.file, stderr=subprocess.STDOUT, env=environment()
        )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match in what it says; however long that takes, unless it ends before."""
        while True:
            ended = self.process.poll() is not None
            text = self.log.read_text(encoding="utf-8")
            found = re.search(pattern, text)
            if found:
                return found
            assert not ended, f"{pattern} not seen: {text[-3000:]}"
            time.sleep(0.1)

    def worker(self, rank: int) -> int:
        """The process of a node."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                words = (folder / "environ").read_bytes().split(b"\0")
            except OSError:  # gone already
                continue
            if int(parent) == self.process.pid and f"RANK={rank}".encode() in words:
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
        self.file.close()

    def kill(self, *nodes: int) -> str:
        """kill -9, and wait until its nodes have ended by themselves; everything they have said."""
        self.process.kill()
        self.process.wait()
        while any(_runs(node) for node in nodes):
            time.sleep(0.1)
        return self.log.read_text(encoding="utf-8")


def _runs(process: int) -> bool:
    """Whether it is there and has not ended (who has, may wait to be taken note of)."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def warm_up() -> None:
    """Import now what the first step of an optimizer imports: it takes seconds, not the same ones.

    (Nodes that have not begun alike would wait for each other longer than they are told to.)
    """
    import torch

    x = torch.nn.Parameter(torch.zeros(1))
    x.grad = torch.zeros(1)
    torch.optim.SGD([x], lr=0.1).step()
    from torch.distributed.nn import functional  # noqa: F401


def leave() -> None:
    """End a node that has done its work, without torch's threads being torn down by the exit.

    (On a loaded machine it has been seen to abort: "terminate called without an active exception".)
    """
    import torch.distributed as dist

    gc.collect()
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


def run_checks(*checks: Callable[[], None]) -> None:
    """Run these on every node, one after another; node 0 says which have passed."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    for check in checks:
        check()
        if dist.get_rank() == 0:
            print("fine:", check.__name__, flush=True)
    leave()
