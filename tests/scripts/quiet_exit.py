"""A script that makes its group itself, steps, and destroys the group: gloo's threads must end."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist

import basegraph as bg


def workers() -> int:
    tasks = Path("/proc/self/task").iterdir()
    return sum((task / "comm").read_text().strip() == "pt_gloo_runloop" for task in tasks)


def main() -> None:
    dist.init_process_group("gloo")
    net = torch.nn.Linear(4, 3)
    optimizer = bg.DecentralizedOptimizer(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    from torch.distributed.nn import functional

    assert functional.all_reduce(torch.ones(2)).tolist() == [dist.get_world_size()] * 2
    before = workers()
    dist.destroy_process_group()
    print(f"{before > 0} before, {workers()} after", flush=True)


if __name__ == "__main__":
    main()
