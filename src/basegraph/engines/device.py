"""The device that a run asks for, and its data there.

Shape legend: samples and targets (nodes, batch, ...), or without the node axis.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from basegraph.data.augment import gather, normalization, taken
from basegraph.data.dataset import Dataset, Split
from basegraph.engines.evaluation import Questions
from basegraph.errors import InvalidArgument

INDEXABLE = (np.uint8, np.int8, np.int16, np.int32, np.int64)
"""Types of integers in which rows of tensors can be picked on every device."""


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
    """The inputs and targets of a split as tensors, of the types that models and losses take.

    Images stay as they are until they are gathered, and so do tokens that are views of one array,
    which is on the device once. Other floating-point numbers become float32, integers int64.
    Read-only arrays are copied, as torch has no read-only tensors.
    """
    windows = split.windows()
    if windows is not None and windows.dtype in INDEXABLE:
        rows = torch.as_tensor(np.require(windows, requirements="W")).to(device)
        return rows[:, :-1], rows[:, 1:]
    inputs, targets = (
        torch.as_tensor(np.require(part, requirements="W"))
        for part in (split.inputs, split.targets)
    )
    if inputs.dim() != 4:
        inputs = _converted(inputs)
    return inputs.to(device), _converted(targets).to(device)


def _converted(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32 if tensor.is_floating_point() else torch.int64)


class DeviceData:
    """A dataset on a device; samples are normalized when they are gathered.

    Args:
        dataset: The data.
        device: Where they go.
        normalize: One of `NORMALIZATIONS`, for images.
        padding: One of `PADDINGS`, for images that are cropped.

    """

    def __init__(
        self,
        dataset: Dataset,
        device: torch.device,
        *,
        normalize: str = "dataset",
        padding: str = "zero",
    ) -> None:
        self.padding = padding
        self.mean: Tensor | None = None
        self.std: Tensor | None = None
        values = normalization(dataset, normalize)
        if values is not None:
            self.mean, self.std = (value.to(device) for value in values)
        self.inputs, self.targets = on_device(dataset.train, device)
        self.test_inputs, self.test_targets = on_device(dataset.test, device)

    def batch(self, planned: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The training samples and targets of one step of a plan."""
        samples = gather(self.inputs, **planned, mean=self.mean, std=self.std, padding=self.padding)
        return samples, taken(self.targets, planned["sample"])

    def questions(self, name: str, places: Tensor) -> Questions:
        """These samples of the test set, or of the training set where another set is named."""
        test = name == "test"
        inputs = self.test_inputs if test else self.inputs
        targets = self.test_targets if test else self.targets
        return Questions(inputs, targets, places, self.mean, self.std)
