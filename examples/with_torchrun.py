"""Plain PyTorch: AdamW that gossips, with a schedule, clipping, checkpoints and an evaluation.

    torchrun --nproc-per-node 4 examples/with_torchrun.py [FOLDER]

Stopped and run again with the same folder, it goes on from the last checkpoint, bit for bit.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.nn import functional

import basegraph as bg

STEPS, SAVE_EVERY = 200, 50


def batch(node: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What this node sees at this step: around a point of its own, labels by a common rule."""
    draws = torch.Generator().manual_seed(1000 * node + step)
    x = torch.randn(32, 8, generator=draws) + 0.5 * node
    return x, (x.sum(dim=1) > 4 * x[:, 0]).long()


def main() -> None:
    """Train, and say how good the average of all nodes' models is."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    # 1. Build the optimizer when the model is on its device. It joins the other processes, too.
    optimizer = bg.Gossip(torch.optim.AdamW(model.parameters(), lr=0.01), topology="base:k=1")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    node = torch.distributed.get_rank()

    # 2. Every node has a model of its own, so every node has a file of its own.
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "checkpoints") / f"node-{node}.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists():
        saved = torch.load(file, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])

    first = optimizer.gossip_step
    for step in range(first, STEPS):
        x, y = batch(node, step)
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()  # 3. AdamW's step, then an exchange with one neighbor
        schedule.step()
        if optimizer.gossip_step % SAVE_EVERY == 0:
            parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
            torch.save({name: part.state_dict() for name, part in parts.items()}, file)

    # 4. Evaluate the average of all models; `consensus()` makes it everybody's model.
    optimizer.consensus()
    x, y = batch(node, STEPS)
    accuracy = (model(x).argmax(dim=1) == y).double().mean()
    torch.distributed.all_reduce(accuracy, op=torch.distributed.ReduceOp.AVG)
    if node == 0:
        torch.save(model.state_dict(), file.parent / "model.pt")
        sent = optimizer.traffic.bytes_sent / 1e3
        print(f"steps {first} to {STEPS}: accuracy {accuracy:.3f}, {sent:.0f} kB sent by node 0")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
