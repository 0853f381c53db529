"""A job of a few nodes that is attacked, started again and attacked again, from a published seed.

    python benchmarks/nemesis.py --seed 0 --events 40

Before every attack the nodes begin from what the attack before has left. What must hold:

1. Everybody who can ends: no process is left that has neither been killed nor stopped.
2. Everybody who can saves, and says so in one line: all nodes but those that were killed, were
   stopped, or have a full disk.
3. What a node saves is, bit for bit, the model that it had after its last completed step: nothing
   is half mixed, and it consists of numbers. Every node of this benchmark keeps a journal of its
   models to compare with.
4. All nodes of the next start begin at the same bits: the average of the models that were saved in
   the last attack, all of them and no others (nothing is lost, nothing is stale), rounded once, and
   after the most steps that one of them had made.
5. Nobody prints a traceback.

The attacks: see `ATTACKS`. Nodes are forked by a process that stands for torchrun.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

import basegraph as bg
from basegraph.engines import checkpoint

ATTACKS = {
    "kill": "kill -9 of a node",
    "kill two": "kill -9 of two nodes at once",
    "hang": "a node is stopped; it goes on when the others have ended",
    "wake late": "a node is stopped; it goes on when the others have been started again",
    "full disk": "kill -9 of a node, and the disk of another is full",
    "not a number": "a gradient of a node is NaN",
    "terminate": "SIGTERM to all nodes, twice, as by a scheduler and torchrun",
    "slow": "a node sleeps at every step; then SIGTERM to all",
    "orphans": "kill -9 of torchrun",
}
SIZES = (3, 4, 5)
PARAMETERS = 15
RECORD = struct.Struct(f"<q{PARAMETERS}f")
PATIENCE = 180.0
"""Seconds in which the nodes make a few steps, or end: a busy machine may need some."""
SAVED = re.compile(r"saved node (\d+) after (\d+) steps in (\S+safetensors)")


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


def node(rank: int, plan: Plan, place: Path, saved: Path) -> int:
    """Train until something happens."""
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    if plan.attack == "full disk" and rank == plan.second:
        checkpoint.save_file = no_space  # type: ignore[assignment]
    journal = os.open(place / f"{rank}.journal", os.O_WRONLY | os.O_CREAT)
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
            if (place / f"{rank}.poisoned").exists() and net.weight.grad is not None:
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

    def __init__(self, plan: Plan, place: Path, saved: Path) -> None:
        self.plan = plan
        self.place = place
        place.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self.launcher = in_child(lambda: self._launch(saved))
        self._wait((place / "nodes").exists, "nodes are started")
        self.nodes: list[int] = json.loads((place / "nodes").read_text())

    def _launch(self, saved: Path) -> int:
        nodes = [in_child(lambda rank=rank: self._node(rank, saved)) for rank in self.ranks]
        (self.place / "nodes.new").write_text(json.dumps(nodes))
        (self.place / "nodes.new").rename(self.place / "nodes")
        for process in nodes:
            os.waitpid(process, 0)
        return 0

    def _node(self, rank: int, saved: Path) -> int:
        log = os.open(self.place / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(
            TORCHELASTIC_RUN_ID="nemesis",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=self._port,
            WORLD_SIZE=str(self.plan.size),
            RANK=str(rank),
        )
        return node(rank, self.plan, self.place, saved)

    @property
    def ranks(self) -> range:
        """The nodes' numbers."""
        return range(self.plan.size)

    def journal(self, rank: int) -> list[tuple[int, list[float]]]:
        """(step, model) of all steps that a node has completed, from the start on."""
        path = self.place / f"{rank}.journal"
        data = path.read_bytes() if path.exists() else b""
        whole = data[: len(data) // RECORD.size * RECORD.size]
        return [(step, x) for step, *x in RECORD.iter_unpack(whole)]

    def log(self, rank: int) -> str:
        """What a node has said."""
        return (self.place / f"{rank}.log").read_text()

    def train(self, steps: int) -> None:
        """Wait until every node has made so many steps."""
        made = lambda: all(len(self.journal(rank)) > steps for rank in self.ranks)  # noqa: E731
        self._wait(made, "all nodes make steps")

    def tell(self, number: signal.Signals, *ranks: int) -> None:
        """Send a signal to nodes that are there."""
        for rank in ranks:
            if runs(self.nodes[rank]):
                os.kill(self.nodes[rank], number)

    def ended(self, *ranks: int) -> None:
        """Wait until these nodes have ended."""
        self._wait(lambda: not any(runs(self.nodes[rank]) for rank in ranks), f"{ranks} end")

    def _wait(self, true: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.plan}: it has not come that {what}")
            time.sleep(0.01)

    def close(self) -> None:
        """Leave nothing behind."""
        self.tell(signal.SIGKILL, *self.ranks)
        os.waitpid(self.launcher, 0)


def runs(process: int) -> bool:
    """Whether it is there and has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


# -- attacks ---------------------------------------------------------------------------------


def attack(job: Job) -> None:
    """Do what is planned, and wait until all that can end have ended."""
    plan = job.plan
    others = [rank for rank in job.ranks if rank != plan.victim]
    if plan.attack in ("kill", "full disk"):
        job.tell(signal.SIGKILL, plan.victim)
    elif plan.attack == "kill two":
        job.tell(signal.SIGKILL, plan.victim, plan.second)
    elif plan.attack in ("hang", "wake late"):
        job.tell(signal.SIGSTOP, plan.victim)
        job.ended(*others)
        if plan.attack == "wake late":
            return
        job.tell(signal.SIGCONT, plan.victim)
    elif plan.attack in ("terminate", "slow"):
        job.tell(signal.SIGTERM, *job.ranks)
        time.sleep(0.05)
        job.tell(signal.SIGTERM, *job.ranks)
    elif plan.attack == "not a number":
        (job.place / f"{plan.victim}.poisoned").touch()
    elif plan.attack == "orphans":
        os.kill(job.launcher, signal.SIGKILL)
    job.ended(*job.ranks)


Models = dict[int, tuple[int, list[float]]]
"""By node: after how many steps, and the model."""


def saved_by(job: Job, violations: list[str]) -> Models:
    """What was saved, each compared with the node's journal (2, 3 and 5)."""
    found: Models = {}
    for rank in job.ranks:
        said, journal = job.log(rank), job.journal(rank)
        if "Traceback" in said:
            violations.append(f"5: {job.plan}: node {rank}: {said[-600:]}")
        matches = SAVED.findall(said)
        if len(matches) not in job.plan.saves(rank):
            violations.append(f"2: {job.plan}: node {rank} saved {matches}: {said[-600:]}")
        if not matches:
            continue
        step, path = int(matches[-1][1]), Path(matches[-1][2])
        tensors, facts = checkpoint.load(path)
        if (step, tensors["x"].tolist()) != journal[-1] or facts["step"] != step:
            violations.append(f"3: {job.plan}: node {rank} saved step {step}, not {journal[-1][0]}")
        found[rank] = journal[-1]
    return found


def compare_start(job: Job, left: Models, violations: list[str]) -> None:
    """All nodes at the exact average of what was left (4)."""
    models = torch.tensor([x for _, x in left.values()], dtype=torch.float64)
    average = models.mean(dim=0).float().tolist()
    step = max(step for step, _ in left.values())
    for rank in job.ranks:
        began = job.journal(rank)[0]
        if began != (step, average):
            violations.append(f"4: {job.plan}: node {rank} began at step {began[0]}, not {step}, "
                              f"{began[1][:2]} not {average[:2]} of {sorted(left)}")  # fmt: skip


@dataclass
class Outcome:
    """What has come of it."""

    attacks: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    saved: int = 0
    violations: list[str] = field(default_factory=list)


def campaign(attacks: list[str], seed: int, folder: Path, timeout: float) -> Outcome:
    """Attack a job in these ways, one after the other, and see that it begins again."""
    chance = random.Random(seed)
    outcome, left = Outcome(), Models()
    asleep: Job | None = None
    for number, name in enumerate([*attacks, "terminate"]):
        size = chance.choice(SIZES)
        victim, second = chance.sample(range(size), 2)
        order = chance.choice(["adapt-then-combine", "combine-then-adapt"])
        plan = Plan(name, size, victim, second, order, timeout)
        job = Job(plan, folder / str(number), folder / "saved")
        try:
            job.train(chance.randrange(5, 40))
            if left:
                compare_start(job, left, outcome.violations)
            if asleep is not None:
                asleep.tell(signal.SIGCONT, asleep.plan.victim)
                asleep.ended(*asleep.ranks)
            attack(job)
            left = saved_by(job, outcome.violations)
        except TimeoutError as error:
            outcome.violations.append(f"1: {error}")
            break
        finally:
            if asleep is not None:
                asleep.close()
            asleep = job if name == "wake late" else None
            if asleep is None:
                job.close()
        outcome.attacks[name] += 1
        outcome.starts += size
        outcome.saved += len(left)
    return outcome


def warm_up() -> None:
    """Import now what nodes import at their first step; they are forked from this process."""
    x = torch.nn.Parameter(torch.zeros(1))
    x.grad = torch.zeros(1)
    torch.optim.SGD([x], lr=0.1).step()
    from torch.distributed.nn import functional  # noqa: F401


def main() -> None:
    """As often as asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--attacks", help="these, by name and with commas, instead of random ones")
    parser.add_argument("--timeout", type=float, default=8.0, help="seconds, of the nodes")
    given = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    warm_up()
    chance = random.Random(given.seed)
    attacks = [chance.choice(list(ATTACKS)) for _ in range(given.events)]
    if given.attacks is not None:
        attacks = given.attacks.split(",")
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        outcome = campaign(attacks, given.seed, Path(folder), given.timeout)
    for name, count in sorted(outcome.attacks.items()):
        print(f"{count:4d} × {name}: {ATTACKS[name]}")
    print(f"{outcome.starts} nodes started, {outcome.saved} models saved, "
          f"{time.monotonic() - began:.0f} s, seed {given.seed}")  # fmt: skip
    print(f"{len(outcome.violations)} violations")
    for violation in outcome.violations:
        print(violation)
    sys.exit(bool(outcome.violations))


if __name__ == "__main__":
    main()
