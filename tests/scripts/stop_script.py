"""Nodes that train until a signal asks them to stop, and catch nothing.

Usage: stop_script.py FOLDER [stuck]. Stuck nodes are in three different places after five steps:
node 0 waits for a neighbor, node 1 is stopped, node 2 evaluates the average for an hour.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import torch

import basegraph as bg
from basegraph.engines.distributed.shutdown import deadline
from support.launch import warm_up

deadline.STOP_SECONDS = 2.0


def main() -> None:
    torch.manual_seed(0)
    warm_up()
    net = torch.nn.Linear(4, 3)
    optimizer = bg.Gossip(
        torch.optim.SGD(net.parameters(), lr=0.01), timeout=100, checkpoint=sys.argv[1]
    )
    node = torch.distributed.get_rank()
    torch.manual_seed(node)
    while True:
        net.zero_grad()
        net(torch.randn(2, 4)).square().sum().backward()
        optimizer.step()
        if optimizer.gossip_step == 5:
            print(f"going {node}: {net.bias.tolist()}", flush=True)
            if sys.argv[2:] == ["stuck"]:
                with optimizer.averaged():
                    time.sleep(3600 if node == 2 else 0.5)
                if node == 1:
                    os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.002)


if __name__ == "__main__":
    main()
