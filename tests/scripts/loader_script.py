"""Two optimizers with folders of their own, and a DataLoader whose workers a signal ends, too.

Usage: loader_script.py FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

import basegraph as bg
from support.launch import warm_up


class Slow(Dataset[torch.Tensor]):
    """Samples that take longer than a step."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.01)
        return torch.ones(4)


def main() -> None:
    batches = iter(
        DataLoader(Slow(), batch_size=4, num_workers=1)
    )  # forks before threads are there
    warm_up()
    folder = Path(sys.argv[1])
    nets = [torch.nn.Linear(4, 1) for _ in range(2)]
    optimizers = [
        bg.Gossip(torch.optim.SGD(net.parameters(), lr=0.01), timeout=100, checkpoint=folder / name)
        for net, name in zip(nets, ("first", "second"), strict=True)
    ]
    for x in batches:
        for net, optimizer in zip(nets, optimizers, strict=True):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
        if optimizers[1].gossip_step == 3:
            print(f"going {torch.distributed.get_rank()}", flush=True)


if __name__ == "__main__":
    main()
