"""Trains without end on nodes of two processes, until one of the processes is lost."""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch.distributed as dist

import basegraph as bg
from support.sharded import model, shard, train_sharded, two_dimensions

TIMEOUT, LOST, SIGNAL = float(sys.argv[1]), int(sys.argv[2]), signal.Signals(int(sys.argv[3]))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = two_dimensions()
    net = shard(model(), mesh["shard"])
    optimizer = bg.Gossip(
        torch.optim.AdamW(net.parameters(), lr=0.01), mesh=mesh["node"], timeout=TIMEOUT
    )
    step = 0
    try:
        while True:
            if rank == LOST and step == 5:
                os.kill(os.getpid(), SIGNAL)
            train_sharded(net, optimizer, mesh, step, step + 1)
            step += 1
    except bg.PeerLost as error:
        print(f"process {rank}: {error}", flush=True)
        os._exit(3)
    except RuntimeError as error:  # of a collective of FSDP's own
        print(f"process {rank}: torch: {str(error).splitlines()[0][:120]}", flush=True)
        os._exit(4)


if __name__ == "__main__":
    main()
