"""Lightning: a `Trainer` whose processes are nodes that gossip.

    torchrun --nproc-per-node 4 examples/with_lightning.py [FOLDER]

Stopped and run again with the same folder, it goes on from the average of all nodes.
Needs: pip install 'basegraph[lightning]'
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import basegraph as bg
from basegraph.integrations.lightning import GossipStrategy


class Classifier(lightning.LightningModule):
    """A small network with BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 32),
            torch.nn.BatchNorm1d(32),
            torch.nn.Tanh(),
            torch.nn.Linear(32, 2),
        )

    def configure_optimizers(self) -> dict[str, object]:
        """AdamW that gossips; BatchNorm's statistics are averaged with `model=`."""
        adamw = torch.optim.AdamW(self.parameters(), lr=0.01)
        optimizer = bg.Gossip(adamw, topology="base:k=1", model=self)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """The loss of this node's batch."""
        x, y = batch
        self.log("bytes_sent", float(self.optimizers().traffic.bytes_sent))
        return functional.cross_entropy(self.net(x), y)

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        """The accuracy of the average of all models."""
        x, y = batch
        right = (self.net(x).argmax(dim=1) == y).float().mean()
        self.log("accuracy", right, sync_dist=True)


def main() -> None:
    """Train, and say how good the average of all nodes' models is."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "checkpoints")
    lightning.seed_everything(0)
    x = torch.randn(1024, 8)
    data = TensorDataset(x, (x.sum(dim=1) > 4 * x[:, 0]).long())
    trainer = lightning.Trainer(
        strategy=GossipStrategy(),  # 1. no DDP, which averages gradients
        devices=int(os.environ.get("WORLD_SIZE", "4")),
        accelerator="cpu",
        max_epochs=3,
        gradient_clip_val=1.0,
        accumulate_grad_batches=2,
        # 2. Checkpoints have the average, in one file, for any number of nodes.
        callbacks=[ModelCheckpoint(folder, save_last=True)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    # 3. Lightning gives each node its share. (For data of its own: use_distributed_sampler=False.)
    loader, validation = DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, 32)
    last = folder / "last.ckpt"
    model = Classifier()
    trainer.fit(model, loader, validation, ckpt_path=last if last.exists() else None)
    (metrics,) = trainer.validate(model, validation, verbose=False)  # 4. all have the average now
    if trainer.is_global_zero:
        steps = trainer.global_step
        print(f"accuracy of the average {metrics['accuracy']:.3f} after {steps} steps")


if __name__ == "__main__":
    main()
