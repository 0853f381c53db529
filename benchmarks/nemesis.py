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

The attacks: see `ATTACKS`. The nodes that are attacked: see nemesis_job.py.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch
from nemesis_job import Job, Plan

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
SAVED = re.compile(r"saved node (\d+) after (\d+) steps in (\S+safetensors)")


def attack(job: Job) -> None:
    """Do what is planned, and wait until all that can end have ended."""
    plan = job.plan
    others = [rank for rank in job.ranks if rank != plan.victim]
    if plan.attack in ("kill", "full disk"):
        job.send(signal.SIGKILL, plan.victim)
    elif plan.attack == "kill two":
        job.send(signal.SIGKILL, plan.victim, plan.second)
    elif plan.attack in ("hang", "wake late"):
        job.send(signal.SIGSTOP, plan.victim)
        job.ended(*others)
        if plan.attack == "wake late":
            return
        job.send(signal.SIGCONT, plan.victim)
    elif plan.attack in ("terminate", "slow"):
        job.send(signal.SIGTERM, *job.ranks)
        time.sleep(0.05)
        job.send(signal.SIGTERM, *job.ranks)
    elif plan.attack == "not a number":
        (job.folder / f"{plan.victim}.poisoned").touch()
    elif plan.attack == "orphans":
        os.kill(job.launcher, signal.SIGKILL)
    job.ended(*job.ranks)


Models = dict[int, tuple[int, list[float]]]
"""By node: after how many steps, and the model."""


def saved_by(job: Job, violations: list[str]) -> Models:
    """What was saved, each compared with the node's journal (2, 3 and 5)."""
    models: Models = {}
    for rank in job.ranks:
        printed, journal = job.log(rank), job.journal(rank)
        if "Traceback" in printed:
            violations.append(f"5: {job.plan}: node {rank}: {printed[-600:]}")
        matches = SAVED.findall(printed)
        if len(matches) not in job.plan.saves(rank):
            violations.append(f"2: {job.plan}: node {rank} saved {matches}: {printed[-600:]}")
        if not matches:
            continue
        step, path = int(matches[-1][1]), Path(matches[-1][2])
        tensors, facts = checkpoint.load(path)
        if (step, tensors["x"].tolist()) != journal[-1] or facts["step"] != step:
            violations.append(f"3: {job.plan}: node {rank} saved step {step}, not {journal[-1][0]}")
        models[rank] = journal[-1]
    return models


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
class Tally:
    """What was attacked, and what did not hold."""

    attacks: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    saved: int = 0
    violations: list[str] = field(default_factory=list)


def campaign(attacks: list[str], seed: int, folder: Path, timeout: float) -> Tally:
    """Attack a job in these ways, one after the other, and see that it begins again."""
    chance = random.Random(seed)
    tally, left = Tally(), Models()
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
                compare_start(job, left, tally.violations)
            if asleep is not None:
                asleep.send(signal.SIGCONT, asleep.plan.victim)
                asleep.ended(*asleep.ranks)
            attack(job)
            left = saved_by(job, tally.violations)
        except TimeoutError as error:
            tally.violations.append(f"1: {error}")
            break
        finally:
            if asleep is not None:
                asleep.close()
            asleep = job if name == "wake late" else None
            if asleep is None:
                job.close()
        tally.attacks[name] += 1
        tally.starts += size
        tally.saved += len(left)
    return tally


def warm_up() -> None:
    """Import now what nodes import at their first step; they are forked from this process."""
    x = torch.nn.Parameter(torch.zeros(1))
    x.grad = torch.zeros(1)
    torch.optim.SGD([x], lr=0.1).step()
    from torch.distributed.nn import functional  # noqa: F401


def main() -> None:
    """Attack as often as asked, and print what did not hold."""
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
        tally = campaign(attacks, given.seed, Path(folder), given.timeout)
    for name, count in sorted(tally.attacks.items()):
        print(f"{count:4d} × {name}: {ATTACKS[name]}")
    print(f"{tally.starts} nodes started, {tally.saved} models saved, "
          f"{time.monotonic() - began:.0f} s, seed {given.seed}")  # fmt: skip
    print(f"{len(tally.violations)} violations")
    for violation in tally.violations:
        print(violation)
    sys.exit(bool(tally.violations))


if __name__ == "__main__":
    main()
