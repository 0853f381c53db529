"""The device that a run asks for, and its data there.

Shape legend: samples (nodes, batch, ...), labels (nodes, batch), or without the node axis.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from basegraph.data.augment import gather
from basegraph.data.dataset import Dataset, Split
from basegraph.engines.evaluation import Questions
from basegraph.errors import InvalidArgument


def pick_device(name: str) -> torch.device:
    """The torch device of this name.

    Args:
        name: `cpu`, `cuda`, `cuda:INDEX`, or `auto`: a GPU where there is one.

    Raises:
        InvalidArgument: If there is no such device here.

    Example:
        >>> pick_device("cpu")
        device(type='cpu')

    """
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
    """The images and labels of a split as tensors.

    Read-only arrays are copied, as torch has no read-only tensors.
    """
    images, labels = (np.require(part, requirements="W") for part in (split.images, split.labels))
    return torch.as_tensor(images).to(device), torch.as_tensor(labels).to(device)


class DeviceData:
    """A dataset on a device; samples are normalized when they are gathered."""

    def __init__(self, dataset: Dataset, device: torch.device) -> None:
        self.mean, self.std = (torch.as_tensor(s).to(device) for s in dataset.statistics())
        self.images, self.labels = on_device(dataset.train, device)
        self.test_images, self.test_labels = on_device(dataset.test, device)

    def batch(self, planned: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The training samples and labels of one step of a plan."""
        samples = gather(self.images, **planned, mean=self.mean, std=self.std)
        return samples, self.labels[planned["sample"]]

    def questions(self, name: str, places: Tensor) -> Questions:
        """These samples of the test set, or of the training set where another set is named."""
        test = name == "test"
        images, labels = (
            (self.test_images, self.test_labels) if test else (self.images, self.labels)
        )
        return Questions(images, labels, places, self.mean, self.std)
