"""Hugging Face Accelerate: its loop, with gossip in place of DDP.

    torchrun --nproc-per-node 4 examples/with_accelerate.py [FOLDER]

Stopped and run again with the same folder, it goes on from the average of all nodes.
Needs: pip install 'basegraph[hf]'
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import basegraph as bg
from basegraph.integrations.accelerate import without_ddp

EPOCHS = 3


def main() -> None:
    """Train, and say how good the average of all nodes' models is."""
    # 1. `prepare` must not wrap the model in DDP, which averages gradients.
    accelerator = without_ddp(Accelerator(cpu=True, gradient_accumulation_steps=2))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    x = torch.randn(2048, 8)
    y = (x.sum(dim=1) > 4 * x[:, 0]).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)

    # 2. Move the model first: the optimizer keeps its parameters in one buffer.
    model.to(accelerator.device)
    gossip = bg.Gossip(torch.optim.AdamW(model.parameters(), lr=0.01), topology="base:k=1")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(gossip, EPOCHS * len(loader) // 2)
    # 3. As always. The loader gives every node its share of the batches.
    model, optimizer, loader, schedule = accelerator.prepare(model, gossip, loader, schedule)

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "checkpoints")
    first = len(list(folder.glob("epoch-*")))
    if first:
        accelerator.load_state(str(folder / f"epoch-{first}"))

    for epoch in range(first, EPOCHS):
        loader.set_epoch(epoch)
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = functional.cross_entropy(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        # 4. Accelerate saves what process 0 has. Inside this block, that is the average.
        with gossip.averaged():
            accelerator.save_state(str(folder / f"epoch-{epoch + 1}"))

    gossip.consensus()
    right = accelerator.gather((model(x).argmax(dim=1) == y).double().mean())
    steps, sent = gossip.gossip_step, gossip.traffic.bytes_sent / 1e3
    accelerator.print(
        f"epochs {first} to {EPOCHS}: accuracy {right.mean():.3f} after {steps} steps, "
        f"{sent:.0f} kB sent by node 0"
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
