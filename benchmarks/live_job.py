"""A job whose nodes join and leave, for `live.py`: forks that write on a board how far they are."""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from contextlib import suppress

import torch
from torch import nn

from basegraph import DecentralizedOptimizer
from basegraph.data.catalog import load
from basegraph.data.dataset import Split

PATIENCE = 300.0
"""Seconds after which a node that makes no step hangs; a busy machine takes some."""
CELL = struct.Struct("<6d")
"""Of every node: steps, epoch, members, when it made the epoch's first step, and results."""
BATCH = 32


class Board:
    """Numbers that all processes see."""

    def __init__(self, cells: int) -> None:
        self.memory = mmap.mmap(-1, CELL.size * (cells + 1))

    def write(self, cell: int, *numbers: float) -> None:
        self.memory[cell * CELL.size : (cell + 1) * CELL.size] = CELL.pack(
            *numbers, *[0.0] * (6 - len(numbers))
        )

    def read(self, cell: int) -> tuple[float, ...]:
        return CELL.unpack(self.memory[cell * CELL.size : (cell + 1) * CELL.size])


def network() -> nn.Module:
    """58,442 parameters; LeNet has 44,470."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


class Data:
    """The digits, as tensors."""

    def __init__(self) -> None:
        digits = load("digits")
        self.x, self.y = self._tensors(digits.train)
        self.test_x, self.test_y = self._tensors(digits.test)

    @staticmethod
    def _tensors(split: Split) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.as_tensor(split.inputs).float() / 255, torch.as_tensor(split.targets).long()

    def loss(self, model: nn.Module, draw: torch.Generator) -> torch.Tensor:
        rows = torch.randint(len(self.x), (BATCH,), generator=draw)
        return nn.functional.cross_entropy(model(self.x[rows]), self.y[rows])

    @torch.no_grad()
    def accuracy(self, model: nn.Module) -> float:
        return float((model(self.test_x).argmax(dim=1) == self.test_y).double().mean())


def node(
    cell: int, board: Board, goal: int, address: str, seed: int, pause: float, data: Data
) -> None:
    """Train until the step that the board says, and write there how far this node is."""
    os.environ["TORCHFT_LIGHTHOUSE"] = address
    os.environ["BASEGRAPH_NODE"] = f"node-{cell:03}"
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(1000 * seed + cell)
    model = network()
    optimizer = DecentralizedOptimizer(
        model.parameters(), "dsgdm", lr=0.02, membership="live", timeout=PATIENCE
    )
    epoch, first = 0, 0.0
    while not 0 < board.read(goal)[0] <= optimizer.gossip_step:
        optimizer.zero_grad()
        data.loss(model, draw).backward()
        time.sleep(pause)
        optimizer.step()
        if optimizer.membership.epoch != epoch:
            epoch, first = optimizer.membership.epoch, time.monotonic()
        board.write(cell, optimizer.gossip_step, epoch, len(optimizer.members), first)
    optimizer.consensus()
    board.write(cell, optimizer.gossip_step, epoch, len(optimizer.members), first, 1.0,
                data.accuracy(model))  # fmt: skip


def fork(work, *arguments) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def lighthouse(outlet: int, heartbeat: float) -> None:
    from basegraph.engines.distributed.membership.lighthouse import torchft_coordination

    server = torchft_coordination().LighthouseServer(
        "127.0.0.1:0", 1, 600_000, 20, round(1000 * heartbeat)
    )
    os.write(outlet, f"http://127.0.0.1:{server.address().rpartition(':')[2]}\n".encode())
    signal.pause()


class Job:
    """Nodes and a lighthouse, and what has happened to them."""

    def __init__(self, cells: int, options: argparse.Namespace, seed: int, data: Data) -> None:
        self.board, self.goal, self.seed, self.data = Board(cells), cells, seed, data
        self.pause = options.pause
        self.free = list(range(cells))
        self.running: dict[int, int] = {}
        inlet, outlet = os.pipe()
        self.lighthouse = fork(lighthouse, outlet, options.heartbeat)
        self.address = os.read(inlet, 100).decode().strip()

    def start(self) -> int:
        cell = self.free.pop(0)
        self.board.write(cell)
        arguments = (cell, self.board, self.goal, self.address, self.seed, self.pause, self.data)
        self.running[cell] = fork(node, *arguments)
        return cell

    def kill(self, cell: int) -> None:
        process = self.running.pop(cell)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)

    def settled(self, members: int, since: dict[int, float]) -> list[float] | None:
        """When each of these nodes made its first step with so many members, if all have."""
        cells = {cell: self.board.read(cell) for cell in since}
        for cell, (_, epoch, count, _, *_) in cells.items():
            if count != members or epoch <= since[cell]:
                return None
        return [cell[3] for cell in cells.values()]

    def wait(self, members: int, since: dict[int, float]) -> list[float]:
        """Wait for that; raises where nodes hang or fail."""
        end = time.monotonic() + PATIENCE
        while True:
            times = self.settled(members, since)
            if times is not None:
                return times
            for cell, process in self.running.items():
                if os.waitpid(process, os.WNOHANG)[0]:
                    raise RuntimeError(f"node {cell} has failed")
            if time.monotonic() > end:
                raise TimeoutError(f"no {members} nodes: {[self.board.read(c) for c in since]}")
            time.sleep(0.005)

    def epochs(self) -> dict[int, float]:
        return {cell: self.board.read(cell)[1] for cell in self.running}

    def finish(self, steps: int) -> tuple[int, float]:
        """Let all nodes end after so many steps more; the last step, and the accuracy."""
        last = max(self.board.read(cell)[0] for cell in self.running) + steps
        self.board.write(self.goal, last)
        for process in self.running.values():
            _, status = os.waitpid(process, 0)
            if status:
                raise RuntimeError(f"a node has ended with {status}")
        results = [self.board.read(cell) for cell in self.running]
        self.close()
        return int(last), results[0][5]

    def close(self) -> None:
        for process in [*self.running.values(), self.lighthouse]:
            with suppress(ProcessLookupError, ChildProcessError):  # it has ended before
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
        self.running = {}
