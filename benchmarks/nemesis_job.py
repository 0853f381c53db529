"""A job for benchmarks/nemesis.py to attack: nodes, and the process that has started them.

Nodes are forked by a process that stands for torchrun. Each keeps a journal of its models, to
compare what it saves with.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import basegraph as bg
from basegraph.engines import checkpoint

PARAMETERS = 15
RECORD = struct.Struct(f"<q{PARAMETERS}f")
LONGEST_WAIT = 180.0
"""Seconds in which the nodes make a few steps, or end: a busy machine may need some."""


@dataclass(frozen=True)
class Plan:
    """What is going to happen to a job."""

    attack: str
    size: int
    victim: int
    second: int
    order: str
    timeout: float

    def saves(self, node: int) -> tuple[int, ...]:
        """How often a node may say that it has saved."""
        if self.attack == "not a number" and node == self.victim:
            return 0, 1  # if the model of its last step is one of numbers
        hit = {
            "kill": [self.victim],
            "kill two": [self.victim, self.second],
            "wake late": [self.victim],
            "full disk": [self.victim, self.second],
        }
        return (0,) if node in hit.get(self.attack, []) else (1,)


# -- a node ----------------------------------------------------------------------------------


def node(rank: int, plan: Plan, folder: Path, saved: Path) -> int:
    """Train until something happens."""
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    if plan.attack == "full disk" and rank == plan.second:
        checkpoint.save_file = no_space  # type: ignore[assignment]
    journal = os.open(folder / f"{rank}.journal", os.O_WRONLY | os.O_CREAT)
    try:
        optimizer = bg.DecentralizedOptimizer(
            net.parameters(),
            lr=0.02,
            momentum=0.9,
            order=plan.order,
            timeout=plan.timeout,
            refuse_nonfinite=True,
            checkpoint=saved,
        )
        while True:
            x = torch.cat([p.detach().reshape(-1) for p in net.parameters()]).tolist()
            os.write(journal, RECORD.pack(optimizer.gossip_step, *x))
            samples = torch.Generator().manual_seed(1000 * optimizer.gossip_step + rank)
            optimizer.zero_grad()
            net(torch.randn(2, 4, generator=samples)).sub(rank).square().mean().backward()
            if (folder / f"{rank}.poisoned").exists() and net.weight.grad is not None:
                net.weight.grad[0, 0] = torch.nan
            time.sleep(0.03 if plan.attack == "slow" and rank == plan.victim else 0.002)
            optimizer.step()
    except bg.BasegraphError as error:
        print(error, flush=True)
        return 1


def no_space(*arguments: object) -> None:
    """A disk that is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# -- a job -----------------------------------------------------------------------------------


def in_child(work: Callable[[], int]) -> int:
    """Do this in a process of its own, whose number is returned."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = work()
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Job:
    """Nodes, and the process that has started them."""

    def __init__(self, plan: Plan, folder: Path, saved: Path) -> None:
        self.plan = plan
        self.folder = folder
        folder.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self.launcher = in_child(lambda: self._launch(saved))
        self._wait((folder / "nodes").exists, "nodes are started")
        self.nodes: list[int] = json.loads((folder / "nodes").read_text())

    def _launch(self, saved: Path) -> int:
        nodes = [in_child(lambda rank=rank: self._node(rank, saved)) for rank in self.ranks]
        (self.folder / "nodes.new").write_text(json.dumps(nodes))
        (self.folder / "nodes.new").rename(self.folder / "nodes")
        for process in nodes:
            os.waitpid(process, 0)
        return 0

    def _node(self, rank: int, saved: Path) -> int:
        log = os.open(self.folder / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(
            TORCHELASTIC_RUN_ID="nemesis",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=self._port,
            WORLD_SIZE=str(self.plan.size),
            RANK=str(rank),
        )
        return node(rank, self.plan, self.folder, saved)

    @property
    def ranks(self) -> range:
        """The nodes' numbers."""
        return range(self.plan.size)

    def journal(self, rank: int) -> list[tuple[int, list[float]]]:
        """(step, model) of all steps that a node has completed, from the start on."""
        path = self.folder / f"{rank}.journal"
        data = path.read_bytes() if path.exists() else b""
        complete = data[: len(data) // RECORD.size * RECORD.size]
        return [(step, x) for step, *x in RECORD.iter_unpack(complete)]

    def log(self, rank: int) -> str:
        """What a node has printed."""
        return (self.folder / f"{rank}.log").read_text()

    def train(self, steps: int) -> None:
        """Wait until every node has made so many steps."""
        made = lambda: all(len(self.journal(rank)) > steps for rank in self.ranks)  # noqa: E731
        self._wait(made, "all nodes make steps")

    def send(self, number: signal.Signals, *ranks: int) -> None:
        """Send a signal to those of the nodes that run."""
        for rank in ranks:
            if runs(self.nodes[rank]):
                os.kill(self.nodes[rank], number)

    def ended(self, *ranks: int) -> None:
        """Wait until these nodes have ended."""
        self._wait(lambda: not any(runs(self.nodes[rank]) for rank in ranks), f"{ranks} end")

    def _wait(self, true: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + LONGEST_WAIT
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.plan}: it has not come that {what}")
            time.sleep(0.01)

    def close(self) -> None:
        """Leave nothing behind."""
        self.send(signal.SIGKILL, *self.ranks)
        os.waitpid(self.launcher, 0)


def runs(process: int) -> bool:
    """Whether it is there and has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
