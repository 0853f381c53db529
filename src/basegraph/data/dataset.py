"""`Dataset`: samples and their targets in memory, images and tokens as their files give them.

Shape legend: images (N, C, H, W) uint8 or floating point; other inputs (N, ...) floating point or
integers; labels (N,) int64; tokens (N, T) integers, with targets of the same shape; other targets
(N, ...).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from basegraph.errors import BasegraphError

Array = NDArray[Any]
Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
TARGET_GROUPS = 10
"""Groups that samples without classes are sorted into, for the Dirichlet partition."""
CHECKED = 2**14
"""Samples whose checksum is taken at a time."""
OWN = "own: "
"""What the recorded name of anything begins with that was passed from Python."""


class DataError(BasegraphError):
    """A dataset that is missing, cut short or not what it should be."""


@dataclass(frozen=True, init=False)
class Split:
    """Samples with their targets.

    Args:
        inputs: Images (N, C, H, W), 8-bit (0 to 255) or floating point; or anything else that a
            model takes: floating-point numbers (N, ...), or integers such as tokens (N, length).
            Images are normalized by channel; floating-point images in [0, 1] give what the same
            images in 8 bits give. Other inputs reach the model as they are.
        targets: (N,) integers from 0 for classes, or (N, ...) whatever the loss takes. Integers of
            the same shape as integer inputs are tokens: what comes after each input token.

    Whatever numpy takes for an array will do, also CPU tensors. Nothing is copied: tokens may be
    views of one array, such as `rows[:, :-1]` and `rows[:, 1:]`.

    Raises:
        DataError: Types or shapes do not fit, or a number is not finite.

    Example:
        >>> len(Split(np.zeros((3, 1, 8, 8)), [0, 1, 0]))
        3
        >>> Split(np.zeros((3, 5)), [0.5, 0.1, 0.2]).targets.dtype
        dtype('float64')

    """

    inputs: Array
    targets: Array

    def __init__(self, inputs: ArrayLike, targets: ArrayLike) -> None:
        inputs, targets = np.asarray(inputs), np.asarray(targets)
        for name, array in (("inputs", inputs), ("targets", targets)):
            if array.dtype.kind not in "uif":
                raise DataError(f"{name} must be integers or floating point, not {array.dtype}")
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise DataError(f"{name} must be finite: some numbers are NaN or infinite")
        if inputs.ndim == 4 and inputs.dtype.kind != "f" and inputs.dtype != np.uint8:
            raise DataError(f"images must be uint8 or floating point, not {inputs.dtype}")
        if inputs.ndim < 2 or targets.ndim < 1 or len(inputs) != len(targets):
            raise DataError(
                f"{_count(inputs)} inputs of shape {inputs.shape[1:]} do not match "
                f"{_count(targets)} targets"
            )
        if targets.dtype.kind != "f" and not _are_tokens(inputs, targets):
            targets = targets.astype(np.int64, copy=False)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "targets", targets)

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, index: NDArray[np.int64]) -> Split:
        """The samples of these numbers."""
        return Split(self.inputs[index], self.targets[index])

    @cached_property
    def checksum(self) -> int:
        """Of inputs and targets as they are in memory, integer targets as int64."""
        checksum = 0
        for part, integers in ((self.inputs, self.inputs.dtype), (self.targets, np.int64)):
            dtype = part.dtype if part.dtype.kind == "f" else integers
            for first in range(0, len(part), CHECKED):
                some = part[first : first + CHECKED].astype(dtype, copy=False)
                checksum = zlib.crc32(some.tobytes(), checksum)
        return checksum

    @property
    def has_tokens(self) -> bool:
        """Whether inputs and targets are tokens: integers, and a target for every input token."""
        return _are_tokens(self.inputs, self.targets)

    def windows(self) -> Array | None:
        """(N, T + 1): the rows that inputs and targets are views of, one token apart; or None.

        Example:
            >>> rows = np.arange(12).reshape(3, 4)
            >>> np.array_equal(Split(rows[:, :-1], rows[:, 1:]).windows(), rows)
            True

        """
        a, b = self.inputs, self.targets
        if not self.has_tokens or a.dtype != b.dtype or a.strides != b.strides:
            return None
        first, second = (each.__array_interface__["data"][0] for each in (a, b))
        if second - first != a.strides[1] or a.strides[1] != a.itemsize:
            return None
        shape = len(a), a.shape[1] + 1
        return np.lib.stride_tricks.as_strided(a, shape, a.strides)


@dataclass(frozen=True)
class Text:
    """What the windows of a text are, besides their tokens.

    Args:
        domains: The names of the domains: of the files.
        test_domains: (N,) the domain of every test window. Those of training windows are `groups`.
        train_bytes: (N,) bytes of text that the targets of every training window stand for.
        test_bytes: (N,) the same of test windows.
        tokenizer: The tokenizer's file; empty: every byte is a token.
        tokenizer_checksum: Of that file.

    """

    domains: tuple[str, ...]
    test_domains: Labels
    train_bytes: Labels
    test_bytes: Labels
    tokenizer: str = ""
    tokenizer_checksum: str = ""


@dataclass(frozen=True)
class Dataset:
    """A training and a test set.

    Args:
        name: What the run records.
        train: What is split among the nodes, less what is held out for validation.
        test: What models are evaluated on.
        classes: How many classes the targets number; None where the targets are something else,
            such as numbers to be predicted. Training then needs a loss of its own, and losses are
            reported in place of accuracies.
        groups: (N,) integers, the group of every training sample: the Dirichlet partition gives
            each node a share of every group. If left out, the classes; without classes, ten groups
            of equal size, by the targets (their first number) where they are floating point, by
            their place in the training set where they are not.
        vocabulary: How many tokens there are, where inputs and targets are tokens: all are below.
        text: What is known of the text that the tokens are of: without it, losses are not reported
            in bits per byte.

    Raises:
        DataError: A set is empty, a label is not a class, a class has no training sample, or a
            token is not in the vocabulary.

    Example:
        >>> points = Split(np.zeros((20, 3)), np.linspace(0, 1, 20))
        >>> Dataset("line", points, points).training_groups().tolist()[:6]
        [0, 0, 1, 1, 2, 2]

    """

    name: str
    train: Split
    test: Split
    classes: int | None = None
    groups: Array | None = None
    vocabulary: int | None = None
    text: Text | None = None

    @property
    def checksum(self) -> str:
        """Of the training and of the test data."""
        return f"{self.train.checksum:08x}-{self.test.checksum:08x}"

    def __post_init__(self) -> None:
        if self.groups is not None:
            groups = np.asarray(self.groups)
            if groups.shape != (len(self.train),) or groups.dtype.kind not in "ui":
                raise DataError(f"{self.name}: groups must be {len(self.train)} integers")
        for which, split in (("training", self.train), ("test", self.test)):
            if not len(split):
                raise DataError(f"{self.name}: the {which} set is empty")
            if split.inputs.shape[1:] != self.train.inputs.shape[1:]:
                raise DataError(f"{self.name}: training and test inputs differ in shape")
            if self.vocabulary is not None:
                _require_tokens(self.name, split, self.vocabulary)
            if self.classes is None:
                continue
            if split.targets.ndim != 1 or split.targets.dtype.kind == "f":
                kind = f"{split.targets.dtype} {split.targets.shape[1:]}"
                raise DataError(f"{self.name}: labels must be integers, not {kind}")
            if split.targets.min() < 0 or split.targets.max() >= self.classes:
                raise DataError(f"{self.name}: a {which} label is not in 0..{self.classes - 1}")
        missing = sorted(set(range(self.classes or 0)) - set(self.train.targets.ravel().tolist()))
        if missing:
            raise DataError(f"{self.name}: no training sample of class {missing[0]}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input: channels, height and width of an image."""
        return self.train.inputs.shape[1:]

    @property
    def has_images(self) -> bool:
        """Whether the inputs are images, which are normalized and may be augmented."""
        return self.train.inputs.ndim == 4

    @property
    def has_tokens(self) -> bool:
        """Whether inputs and targets are tokens: integers, and a target for every input token."""
        return self.train.has_tokens

    def example(self) -> Array:
        """(1, ...): an input of zeros, of the type that models get."""
        integers = not self.has_images and self.train.inputs.dtype.kind != "f"
        return np.zeros((1, *self.shape), dtype=np.int64 if integers else np.float32)

    def training_groups(self) -> Labels:
        """(N,): the group of every training sample."""
        if self.groups is not None:
            return np.asarray(self.groups).astype(np.int64, copy=False)
        targets = self.train.targets
        if self.classes is not None:
            return targets
        order = np.arange(len(targets))
        if targets.dtype.kind == "f":
            order = np.argsort(targets.reshape(len(targets), -1)[:, 0], kind="stable")
        groups = np.empty(len(targets), dtype=np.int64)
        groups[order] = np.arange(len(targets)) * TARGET_GROUPS // len(targets)
        return groups

    def statistics(self) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """Mean and standard deviation of every channel of the training images; None without any.

        8-bit images are on 0..1 here, as they are for models.
        """
        if not self.has_images:
            return None
        pixels = self.train.inputs.transpose(1, 0, 2, 3).reshape(self.shape[0], -1)
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


def _are_tokens(inputs: Array, targets: Array) -> bool:
    kinds = inputs.dtype.kind + targets.dtype.kind
    return inputs.ndim == 2 and inputs.shape == targets.shape and "f" not in kinds


def _require_tokens(name: str, split: Split, vocabulary: int) -> None:
    if not split.has_tokens:
        raise DataError(f"{name}: has a vocabulary, so inputs and targets must be tokens (N, T)")
    for part in (split.inputs, split.targets):
        low, high = int(part.min()), int(part.max())
        if low < 0 or high >= vocabulary:
            token = low if low < 0 else high
            raise DataError(f"{name}: token {token} is not in the vocabulary 0..{vocabulary - 1}")


def _count(array: Array) -> int:
    return len(array) if array.ndim else 1
