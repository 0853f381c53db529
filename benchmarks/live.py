"""Nodes that are killed, stopped and started at random while the others train on.

    python benchmarks/live.py --events 200 --seed 0

Prints events by kind, hangs (a node that is alive makes no step), seconds from a fault to the next
step of the last survivor as a multiple of the heartbeat timeout, the test accuracy beside that of
undisturbed runs, memory and threads of a node that lives through everything, and what one fault
costs with `torchrun --max-restarts` (a whole restart from what the nodes have saved).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from live_job import Data, Job, network
from provenance import header

from basegraph import DecentralizedOptimizer

KINDS = {"kill": 4, "kill two": 1, "stop": 3, "join": 4, "kill while one joins": 2}
"""Events, and how often they come."""


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
