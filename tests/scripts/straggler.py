"""Six nodes, of which node 3 sleeps at every step. Usage: straggler.py FOLDER, for their logs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch

import basegraph as bg
from basegraph.engines.distributed import traffic as waiting
from support.forked import fork
from support.launch import free_port, warm_up

NODES, SLOW = 6, 3
waiting.STRAGGLER_ROUNDS = 15


def node(rank: int) -> int:
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    optimizer = bg.DecentralizedOptimizer(net.parameters(), lr=0.1, timeout=60)
    for _ in range(3 * waiting.STRAGGLER_ROUNDS):
        optimizer.zero_grad()
        net(torch.ones(2, 4)).square().sum().backward()
        time.sleep(0.15 if rank == SLOW else 0)
        optimizer.step()
    traffic = optimizer.traffic
    print(f"waited {traffic.seconds_waited} {sum(traffic.seconds_waited_for.values())}", flush=True)
    torch.distributed.barrier()
    return 0


def main() -> None:
    warm_up()
    port = free_port()
    nodes = [fork(rank, NODES, port, node, Path(sys.argv[1]) / str(rank)) for rank in range(NODES)]
    sys.exit(max(os.waitpid(process, 0)[1] for process in nodes))


if __name__ == "__main__":
    main()
