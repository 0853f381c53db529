"""A job of three starts: a node hangs in the first and wakes up in the second; then all are killed.

Usage: fencing.py FOLDER. All nodes are forks of this process. Node I of start S writes to
FOLDER/S-I; the job's folder is FOLDER/job.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch

import basegraph as bg
from support.launch import free_port, warm_up

SECONDS = 15.0
HANGS, WAKES, KILLED = 7, 22, 35
"""Steps after which node 2 hangs, after which the others wait for its end, and are killed."""


def node(folder: Path, start: int, rank: int) -> int:
    x = torch.nn.Parameter(torch.zeros(3))
    optimizer = bg.DecentralizedOptimizer(
        [x], "dsgd", lr=1.0, timeout=SECONDS, checkpoint=folder / "job", checkpoint_every=10
    )
    print(f"begins at step {optimizer.gossip_step} with {x[0].item():g}", flush=True)
    if start == 3:
        return 0
    try:
        while optimizer.gossip_step < KILLED:
            if start == 1 and optimizer.gossip_step == HANGS and rank == 2:
                os.kill(os.getpid(), signal.SIGSTOP)
            if start == 2 and optimizer.gossip_step == WAKES:
                wait_for(folder / "1-2", "saved")
            x.grad = torch.full((3,), -1.0 - rank)
            optimizer.step()
    except bg.PeerLost as error:
        print(error, flush=True)
        return 1
    print("made all steps", flush=True)
    wait_for(folder / f"2-{1 - rank}", "made")
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def wait_for(log: Path, word: str) -> None:
    while word not in log.read_text():
        time.sleep(0.05)


def fork(folder: Path, start: int, rank: int, n: int, port: int) -> int:
    """A node in a process of its own, whose number is returned."""
    child = os.fork()
    if child:
        return child
    descriptor = os.open(folder / f"{start}-{rank}", os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(n), RANK=str(rank)
    )
    sys.exit(node(folder, start, rank))


def begin(folder: Path, start: int, n: int) -> list[int]:
    port = free_port()
    return [fork(folder, start, rank, n, port) for rank in range(n)]


def end(processes: list[int], expected: int) -> None:
    for process in processes:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        assert code == expected, code


def main() -> None:
    folder = Path(sys.argv[1])
    warm_up()
    *others, hung = begin(folder, 1, 3)
    end(others, 1)
    second = begin(folder, 2, 2)
    wait_for(folder / "2-0", "begins")
    os.kill(hung, signal.SIGCONT)
    end([hung], 1)
    end(second, -signal.SIGKILL)
    end(begin(folder, 3, 2), 0)


if __name__ == "__main__":
    main()
