"""The device that a run asks for, and data on it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from basegraph.data.dataset import Split
from basegraph.errors import InvalidArgument


def pick_device(name: str) -> torch.device:
    """The device asked for, refused if it is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not name.startswith("cuda"):
        return torch.device(name)
    index = name.partition(":")[2] or "0"
    if not index.isdigit() or int(index) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise InvalidArgument("device", name, f"there are {count} CUDA devices here; or use cpu")
    return torch.device(name)


def on_device(split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """Images and labels; arrays that are read-only are copied, as torch has no such tensors."""
    images, labels = (np.require(part, requirements="W") for part in (split.images, split.labels))
    return torch.as_tensor(images).to(device), torch.as_tensor(labels).to(device)
