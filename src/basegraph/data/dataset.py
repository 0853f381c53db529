"""`Dataset`: images and labels in memory, as their files give them.

Shape legend: images (N, C, H, W) uint8, labels (N,) int64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from basegraph.errors import BasegraphError

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


OWN = "own: "
"""What the recorded name of a dataset or model begins with that was passed from Python."""


class DataError(BasegraphError):
    """A dataset that is missing, cut short or not what it should be."""


@dataclass(frozen=True)
class Split:
    """Images with their labels."""

    images: Images
    labels: Labels

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or len(self.images) != len(self.labels):
            raise DataError(
                f"{len(self.images)} images of shape {self.images.shape[1:]} do not go with "
                f"{len(self.labels)} labels"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: NDArray[np.int64]) -> Split:
        """The samples of these numbers."""
        return Split(self.images[index], self.labels[index])


@dataclass(frozen=True)
class Dataset:
    """A training and a test set."""

    name: str
    train: Split
    test: Split
    classes: int

    def __post_init__(self) -> None:
        for which, split in (("training", self.train), ("test", self.test)):
            if not len(split):
                raise DataError(f"{self.name}: the {which} set is empty")
            if split.labels.min() < 0 or split.labels.max() >= self.classes:
                raise DataError(f"{self.name}: a {which} label is not in 0..{self.classes - 1}")
        missing = sorted(set(range(self.classes)) - set(self.train.labels.tolist()))
        if missing:
            raise DataError(f"{self.name}: no training image of class {missing[0]}")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, c, h, w = self.train.images.shape
        return c, h, w

    def statistics(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Mean and standard deviation of every channel of the training images, on 0..1."""
        pixels = self.train.images.transpose(1, 0, 2, 3).reshape(self.shape[0], -1)
        counts = np.stack([np.bincount(channel, minlength=256) for channel in pixels])
        share = counts / counts.sum(axis=1, keepdims=True)
        values = np.arange(256) / 255
        mean = share @ values
        std = np.sqrt(share @ values**2 - mean**2)
        return mean.astype(np.float32), np.maximum(std, 1e-3).astype(np.float32)
