"""`Dataset`: images and labels in memory, as their files give them.

Shape legend: images (N, C, H, W) uint8 or floating point, labels (N,) int64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from basegraph.errors import BasegraphError

Images = NDArray[np.uint8]
FloatImages = NDArray[np.floating[Any]]
Labels = NDArray[np.int64]


OWN = "own: "
"""What the recorded name of a dataset or model begins with that was passed from Python."""


class DataError(BasegraphError):
    """A dataset that is missing, cut short or not what it should be."""


@dataclass(frozen=True, init=False)
class Split:
    """Images with their labels.

    Args:
        images: (N, C, H, W), 8-bit (0 to 255) or floating point. Floating-point images are taken as
            they are: those in [0, 1] give what the same images in 8 bits give.
        labels: (N,) integers from 0.

    Whatever numpy takes for an array will do, also CPU tensors.

    Raises:
        DataError: Types or shapes do not fit, or a pixel is not finite.

    Example:
        >>> len(Split(np.zeros((3, 1, 8, 8)), [0, 1, 0]))
        3

    """

    images: Images | FloatImages
    labels: Labels

    def __init__(self, images: ArrayLike, labels: ArrayLike) -> None:
        images, labels = np.asarray(images), np.asarray(labels)
        if images.dtype != np.uint8 and not np.issubdtype(images.dtype, np.floating):
            raise DataError(f"images must be uint8 or floating point, not {images.dtype}")
        if images.dtype != np.uint8 and not np.isfinite(images).all():
            raise DataError("images must be finite: some pixels are NaN or infinite")
        if not np.issubdtype(labels.dtype, np.integer):
            raise DataError(f"labels must be integers, not {labels.dtype}")
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "labels", labels.astype(np.int64, copy=False))
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
        """Mean and standard deviation of every channel of the training images.

        8-bit images are on 0..1 here, as they are for models.
        """
        pixels = self.train.images.transpose(1, 0, 2, 3).reshape(self.shape[0], -1)
        if pixels.dtype == np.uint8:
            counts = np.stack([np.bincount(channel, minlength=256) for channel in pixels])
            share = counts / counts.sum(axis=1, keepdims=True)
            values = np.arange(256) / 255
            mean = share @ values
            std = np.sqrt(share @ values**2 - mean**2)
        else:
            mean = pixels.mean(axis=1, dtype=np.float64)
            std = pixels.std(axis=1, dtype=np.float64)
        return mean.astype(np.float32), np.maximum(std, 1e-3).astype(np.float32)
