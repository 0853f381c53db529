"""Nodes that are killed, stopped and started at random while the others train on.

    python benchmarks/live.py --events 200 --seed 0

Prints events by kind, hangs (a node that is alive makes no step), seconds from a fault to the next
step of the last survivor as a multiple of the heartbeat timeout, the test accuracy beside that of
undisturbed runs, memory and threads of a node that lives through everything, and what one fault
costs with `torchrun --max-restarts` (a whole restart from what the nodes have saved).
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path

import torch
from provenance import header
from torch import nn

from basegraph import DecentralizedOptimizer
from basegraph.data.catalog import load
from basegraph.data.dataset import Split

KINDS = {"kill": 4, "kill two": 1, "stop": 3, "join": 4, "kill while one joins": 2}
"""Events, and how often they come."""
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
    """As many parameters as LeNet has."""
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


def state(process: int) -> tuple[float, int]:
    """MiB of memory and threads of a process."""
    text = Path(f"/proc/{process}/status").read_text()
    memory, threads = (re.search(rf"{name}:\s+(\d+)", text) for name in ("VmRSS", "Threads"))
    assert memory
    assert threads
    return int(memory.group(1)) / 1024, int(threads.group(1))


def settled_state(process: int) -> tuple[float, int]:
    """The same after a second without events: while nodes connect, there are more threads."""
    time.sleep(1.0)
    return state(process)


def disturbed(options: argparse.Namespace, data: Data) -> int:
    """A job with events; the steps it has made."""
    dice = random.Random(options.seed)
    job = Job(options.nodes + 4 * options.events, options, options.seed, data)
    counts: Counter[str] = Counter()
    faults: list[float] = []
    joins: list[float] = []
    try:
        for _ in range(options.nodes):
            job.start()
        witness = min(job.running)
        job.wait(options.nodes, dict.fromkeys(job.running, 0.0))
        before = settled_state(job.running[witness])
        for number in range(options.events):
            kind = event(job, dice, options, faults, joins, witness)
            counts[kind] += 1
            if number % 10 == 9:
                print(f"  {number + 1} events, {len(job.running)} nodes", flush=True)
            if number == options.events // 5:
                before = settled_state(job.running[witness])
            time.sleep(dice.uniform(0.0, 0.3))
        after = settled_state(job.running[witness])
        steps, accuracy = job.finish(options.steps)
    finally:
        job.close()
    print("events   " + ", ".join(f"{count} × {kind}" for kind, count in sorted(counts.items())))
    print("hangs    0")
    times = sorted(seconds / options.heartbeat for seconds in faults)
    print(
        f"faults   to the next step of the last survivor: median {statistics.median(times):.2f}, "
        f"worst {times[-1]:.2f} heartbeat timeouts of {options.heartbeat:g} s"
    )
    if joins:
        print(f"joins    taken in after {statistics.median(joins):.2f} s (median)")
    print(
        f"node     {before[0]:.0f} MiB, {before[1]} threads after a fifth of the events; "
        f"{after[0]:.0f} MiB, {after[1]} threads at the end"
    )
    print(f"result   test accuracy {accuracy:.4f} after {steps} steps", flush=True)
    return steps


def event(
    job: Job,
    dice: random.Random,
    options: argparse.Namespace,
    faults: list[float],
    joins: list[float],
    witness: int,
) -> str:
    """Something happens, and the job gets over it."""
    others = [cell for cell in job.running if cell != witness]
    kinds = dict(KINDS)
    if len(others) < 3:
        kinds = {"join": 1}
    elif len(others) >= options.nodes:
        kinds = {kind: weight for kind, weight in kinds.items() if "join" not in kind}
    kind = dice.choices(list(kinds), list(kinds.values()))[0]
    epochs, began = job.epochs(), time.monotonic()
    if kind == "join":
        cell = job.start()
        times = job.wait(len(job.running), {**epochs, cell: 0.0})
        joins.append(max(times) - began)
    elif kind == "stop":
        victim = dice.choice(others)
        process = job.running.pop(victim)
        os.kill(process, signal.SIGSTOP)
        del epochs[victim]
        faults.append(max(job.wait(len(job.running), epochs)) - began)
        asleep = {**job.epochs(), victim: job.board.read(victim)[1]}
        os.kill(process, signal.SIGCONT)
        job.running[victim] = process
        job.wait(len(job.running), asleep)
    else:
        for victim in dice.sample(others, 2 if kind == "kill two" else 1):
            job.kill(victim)
            del epochs[victim]
        if kind == "kill while one joins":
            epochs[job.start()] = 0.0
        times = job.wait(len(job.running), epochs)
        if kind != "kill while one joins":  # the newcomer takes its own time to start
            faults.append(max(times) - began)
    return kind


def undisturbed(options: argparse.Namespace, data: Data, steps: int) -> None:
    """As many steps without events, but no more than converge, for several seeds."""
    accuracies = []
    steps = min(steps, options.converged)
    for seed in range(options.seeds):
        job = Job(options.nodes, options, seed, data)
        try:
            for _ in range(options.nodes):
                job.start()
            job.wait(options.nodes, dict.fromkeys(job.running, 0.0))
            made = max(job.board.read(cell)[0] for cell in job.running)
            accuracies.append(job.finish(max(100, steps - int(made)))[1])
        finally:
            job.close()
    shown = ", ".join(f"{accuracy:.4f}" for accuracy in accuracies)
    print(f"beside   test accuracy of undisturbed runs of {steps} steps: {shown}", flush=True)


# -- torchrun --------------------------------------------------------------------------------


def torchrun_node(folder: Path) -> None:
    """A node of today's kind, which begins again from what the survivors have saved."""
    data, rank = Data(), int(os.environ["RANK"])
    torch.manual_seed(0)
    model = network()
    optimizer = DecentralizedOptimizer(
        model.parameters(), "dsgdm", lr=0.02, timeout=60.0, checkpoint=folder / "job"
    )
    draw = torch.Generator().manual_seed(rank)
    start = os.environ["TORCHELASTIC_RESTART_COUNT"]
    (folder / f"{start}-{rank}.pid").write_text(str(os.getpid()))
    while not (folder / "end").exists():
        optimizer.zero_grad()
        data.loss(model, draw).backward()
        optimizer.step()
        (folder / f"{start}-{rank}.step").touch()
    os._exit(0)


def torchrun_cost(nodes: int) -> float:
    """Seconds from the kill of one node to the next step of all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(nodes)),
                *("--max-restarts", "1", __file__, "--torchrun-node", name),
            ],
            stderr=subprocess.DEVNULL,
        )

        def wait(start: int) -> None:
            while len(list(folder.glob(f"{start}-*.step"))) < nodes:
                if job.poll() is not None:
                    raise RuntimeError("torchrun has ended")
                time.sleep(0.01)

        wait(0)
        began = time.monotonic()
        os.kill(int((folder / f"0-{nodes - 1}.pid").read_text()), signal.SIGKILL)
        wait(1)
        seconds = time.monotonic() - began
        (folder / "end").touch()
        job.wait()
        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--heartbeat", type=float, default=2.0, help="timeout, in seconds")
    parser.add_argument("--pause", type=float, default=0.01, help="seconds of a gradient, at least")
    parser.add_argument("--converged", type=int, default=4000, help="steps of an undisturbed run")
    parser.add_argument("--steps", type=int, default=300, help="after the last event")
    parser.add_argument("--seeds", type=int, default=3, help="of undisturbed runs; 0 for none")
    parser.add_argument("--no-torchrun", action="store_true")
    parser.add_argument("--torchrun-node", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.torchrun_node:
        torchrun_node(options.torchrun_node)
    print(header())
    data = Data()
    steps = disturbed(options, data)
    if options.seeds:
        undisturbed(options, data, steps)
    if not options.no_torchrun:
        seconds = torchrun_cost(options.nodes)
        print(f"torchrun one fault with --max-restarts 1: {seconds:.1f} s until all step again")


if __name__ == "__main__":
    main()
