"""Nodes of which one is lost at a given place, for several such places at once.

Usage: faults.py FOLDER. All nodes are forks of this process, which has imported everything already.
Node I of a scenario writes to FOLDER/SCENARIO/I, and its exit code is in FOLDER/SCENARIO/I.code.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

import basegraph as bg
from basegraph.engines.distributed.membership.progress import PAUSE, Progress
from support.forked import fork
from support.launch import free_port, warm_up

NODES = 3
SECONDS = 20.0
NOWHERE = ""


@dataclass(frozen=True)
class Scenario:
    """Where node `lost` is lost, and how: before it says that it has got there, or after."""

    phase: str
    how: signal.Signals
    lost: int = 2
    after: bool = False
    own_group: bool = False
    """Whether the script makes the process group itself, with torch's timeout of 30 minutes."""
    subgroup: bool = False
    """Whether the nodes are ranks 1 and 2 only."""


SCENARIOS = {
    "never comes": Scenario(NOWHERE, signal.SIGSTOP),
    "node 0 never comes": Scenario(NOWHERE, signal.SIGKILL, lost=0),
    "dies while connecting": Scenario("the rendezvous", signal.SIGKILL),
    "hangs while connecting": Scenario("the rendezvous", signal.SIGSTOP, after=True),
    "dies before the handshake": Scenario("the handshake", signal.SIGKILL),
    "dies in the handshake": Scenario("the handshake", signal.SIGKILL, after=True, own_group=True),
    "node 0 dies in the handshake": Scenario("the handshake", signal.SIGKILL, lost=0, after=True),
    "node 0 hangs in the handshake": Scenario("the handshake", signal.SIGSTOP, lost=0, after=True),
    "hangs before the broadcast": Scenario("the first broadcast", signal.SIGSTOP, own_group=True),
    "dies in an all-reduce": Scenario("step 3", signal.SIGKILL, after=True),
    "hangs before an all-reduce": Scenario("step 3", signal.SIGSTOP, own_group=True),
    "dies in a group of some": Scenario("step 3", signal.SIGKILL, subgroup=True, own_group=True),
}


def lose(scenario: Scenario) -> None:
    """Have this process end or stop at the place."""
    if scenario.phase == NOWHERE:
        os.kill(os.getpid(), scenario.how)
    write = Progress.reached

    def reached(self: Progress, phase: str, *, routine: bool = False) -> None:
        here = phase == scenario.phase
        if here and not scenario.after:
            os.kill(os.getpid(), scenario.how)
        write(self, phase, routine=routine)
        if here and scenario.after:
            time.sleep(0.2)  # so that the note gets out
            os.kill(os.getpid(), scenario.how)

    Progress.reached = reached  # type: ignore[method-assign]


def node(scenario: Scenario, rank: int) -> int:
    torch.manual_seed(0)
    if rank == scenario.lost:
        lose(scenario)
    group = None
    if scenario.own_group:
        dist.init_process_group("gloo")
    if scenario.subgroup:
        group = dist.new_group([1, 2])
        if dist.get_rank() == 0:
            while "PeerLost" not in neighboring_log().read_text():
                time.sleep(0.1)  # keeps the store
            return 0
    try:
        net = torch.nn.Linear(4, 3)
        optimizer = bg.DecentralizedOptimizer(
            net.parameters(), "allreduce-sgd", lr=0.1, timeout=SECONDS, group=group
        )
        for _ in range(5):
            time.sleep(2 * PAUSE)  # so that every step is noted
            optimizer.zero_grad()
            net(torch.ones(2, 4)).square().sum().backward()
            optimizer.step()
    except bg.BasegraphError as error:
        print(f"{type(error).__name__}({error.node}): {error}", flush=True)
        return 1
    return 0


def neighboring_log() -> Path:
    """Where node 1 writes, if this is node 0."""
    return Path("/proc/self/fd/1").readlink().with_name("1")


def main() -> None:
    folder = Path(sys.argv[1])
    warm_up()
    gc.freeze()  # nodes need not go through what was there before them
    running = {}
    for name, scenario in SCENARIOS.items():
        (folder / name).mkdir()
        port = free_port()
        running[name] = [
            fork(rank, NODES, port, partial(node, scenario), folder / name / str(rank))
            for rank in range(NODES)
        ]
    for name, nodes in running.items():
        lost = SCENARIOS[name].lost
        for rank, process in enumerate(nodes):
            if rank != lost:
                _, status = os.waitpid(process, 0)
                code = os.waitstatus_to_exitcode(status)
                (folder / name / f"{rank}.code").write_text(str(code))
        os.kill(nodes[lost], signal.SIGKILL)
        os.waitpid(nodes[lost], 0)


if __name__ == "__main__":
    main()
