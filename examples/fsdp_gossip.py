"""FSDP2 inside a node, gossip between nodes: three nodes of two processes each, on digits.

    torchrun --nproc-per-node 6 examples/fsdp_gossip.py

Every node has images of a few classes only, and every process of it a part of them. The averaged
model is evaluated now and then, saved in the background, and written to model.safetensors at the
end. Stop it and start it again with another number of processes: it goes on. Seconds on two CPU
cores; with GPUs, one process each.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

import basegraph as bg


def main() -> None:
    """Train, evaluate and save."""
    asked = arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group()
    if device == "cuda":
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    shape = (dist.get_world_size() // asked.shards, asked.shards)
    mesh = init_device_mesh(device, shape, mesh_dim_names=("node", "shard"))

    model = sharded_model(mesh["shard"])
    adamw = torch.optim.AdamW(model.parameters(), lr=3e-3)
    optimizer = bg.Gossip(adamw, topology=asked.topology, mesh=mesh["node"], model=model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, asked.steps)
    restored = bg.load_checkpoint(asked.out / "checkpoints", model, optimizer)
    if restored is not None:
        schedule.load_state_dict(restored.extra["schedule"])

    images, classes, test_images, test_classes = (part.to(device) for part in data(mesh))
    draws = torch.Generator().manual_seed(dist.get_rank())
    for step in range(optimizer.gossip_step, asked.steps):
        chosen = torch.randint(len(images), (32,), generator=draws)
        loss = nn.functional.cross_entropy(model(images[chosen]), classes[chosen])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 50 == 0:
            evaluate(model, optimizer, test_images, test_classes)
            extra = {"schedule": schedule.state_dict()}
            bg.save_checkpoint(
                asked.out / "checkpoints", model, optimizer, extra=extra, background=True
            )
    bg.save_averaged(asked.out / "model.safetensors", model, optimizer)
    bg.save_checkpoint(
        asked.out / "checkpoints", model, optimizer, extra={"schedule": schedule.state_dict()}
    )
    dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=int, default=2, help="processes of a node")
    parser.add_argument("--topology", default="base:k=1", help="who talks to whom")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("fsdp-gossip"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    return asked


def sharded_model(mesh: DeviceMesh) -> nn.Module:
    """A small network, each layer sharded by itself as the blocks of a large one would be."""
    layers = [nn.Linear(64, 128), nn.GELU(), nn.BatchNorm1d(128), nn.Linear(128, 10)]
    for layer in layers:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    return fully_shard(nn.Sequential(*layers), mesh=mesh)


def data(mesh: DeviceMesh) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and classes of this process, those of a few classes; and the same test for all."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    classes = torch.tensor(digits.target)
    train, test = slice(0, 1500), slice(1500, None)
    by_class = classes[train].argsort(stable=True)
    mine = by_class.chunk(mesh.size(0))[mesh.get_local_rank("node")]
    mine = mine[mesh.get_local_rank("shard") :: mesh.size(1)]
    return images[mine], classes[mine], images[test], classes[test]


def evaluate(model: nn.Module, optimizer: bg.Gossip, images: Tensor, classes: Tensor) -> None:
    """Print the accuracy of the average of all models."""
    with optimizer.averaged(), torch.no_grad():
        model.eval()
        accuracy = (model(images).argmax(dim=1) == classes).float().mean().item()
        model.train()
    if dist.get_rank() == 0:
        print(f"step {optimizer.gossip_step}: accuracy {accuracy:.3f} of the averaged model")


if __name__ == "__main__":
    main()
