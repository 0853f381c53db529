"""The samples and augmentations every node sees: a pure function of (seed, node, step).

A node goes through its samples again and again, in a new order each time; step t takes the places
t*B .. (t+1)*B - 1 of that endless stream. Whatever is drawn for a place comes from a counter-based
generator at that place, so a run can be resumed anywhere and any engine sees the same.

Shape legend: (steps, nodes, batch).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from basegraph.topology.round import IntArray

_ORDER, _AUGMENT = 3, 4
PADDING = 4
"""Pixels of zeros around an image before a random crop."""


class EpochPlan(NamedTuple):
    """What to feed for some consecutive steps."""

    sample: IntArray
    """Numbers of training samples."""
    crop: NDArray[np.int16] | None
    """(..., 2): rows and columns by which the padded image is shifted, 0 .. 2*PADDING."""
    flip: NDArray[np.bool_] | None
    """Whether left and right are exchanged."""
    erase: NDArray[np.int16] | None
    """(..., 4): top, left, height, width of the rectangle that is erased; height 0: none."""


class Planner:
    """Draws plans for a partition of the training samples."""

    def __init__(
        self,
        parts: IntArray,
        batch: int,
        seed: int,
        *,
        image: tuple[int, int],
        augmentations: tuple[str, ...] = (),
    ) -> None:
        self.parts = parts
        self.batch = batch
        self.seed = seed
        self.image = image
        self.augmentations = augmentations
        self._orders: dict[tuple[int, int], IntArray] = {}

    def steps(self, first: int, last: int, nodes: Sequence[int] | None = None) -> EpochPlan:
        """The plan of steps first .. last-1, of all nodes or of some."""
        places = np.arange(first * self.batch, last * self.batch)
        shape = (last - first, self.batch)
        nodes = range(len(self.parts)) if nodes is None else nodes
        sample = np.stack([self._samples(node, places).reshape(shape) for node in nodes], axis=1)
        if not self.augmentations:
            return EpochPlan(sample, None, None, None)
        raw = np.stack([self._raw(node, places).reshape(*shape, 8) for node in nodes], axis=1)
        return EpochPlan(
            sample,
            (raw[..., 0:2] % (2 * PADDING + 1)).astype(np.int16)
            if "crop" in self.augmentations
            else None,
            raw[..., 2] % 2 == 1 if "flip" in self.augmentations else None,
            self._erasures(raw[..., 3:8]) if "erase" in self.augmentations else None,
        )

    def _samples(self, node: int, places: IntArray) -> IntArray:
        size = self.parts.shape[1]
        found = np.empty(len(places), dtype=np.int64)
        for turn in range(places[0] // size, places[-1] // size + 1):
            here = places // size == turn
            found[here] = self.parts[node][self._order(node, turn)[places[here] % size]]
        return found

    def _order(self, node: int, turn: int) -> IntArray:
        key = (node, turn)
        if key not in self._orders:
            if len(self._orders) > 4 * len(self.parts):
                self._orders.clear()
            counter = [0, turn, 0, 0]
            raw = np.random.Philox(key=[self.seed, (node << 8) + _ORDER], counter=counter)
            self._orders[key] = np.argsort(raw.random_raw(self.parts.shape[1]), kind="stable")
        return self._orders[key]

    def _raw(self, node: int, places: IntArray) -> NDArray[np.uint16]:
        """(places, 8) numbers below 2^16: from one block of the generator for every place."""
        key = [self.seed, (node << 8) + _AUGMENT]
        stream = np.random.Philox(key=key, counter=[int(places[0]), 0, 0, 0])
        words = stream.random_raw(4 * len(places)).astype("<u8", copy=False)
        return words.view("<u2").reshape(len(places), 16)[:, :8]

    def _erasures(self, raw: NDArray[np.uint16]) -> NDArray[np.int16]:
        """Rectangles as torchvision's RandomErasing draws them, in one attempt; half erase none."""
        height, width = self.image
        unit = (raw + 0.5) / 2**16
        area = height * width * (0.02 + (0.33 - 0.02) * unit[..., 1])
        ratio = np.exp(np.log(0.3) + (np.log(3.3) - np.log(0.3)) * unit[..., 2])
        h, w = np.round(np.sqrt(area * ratio)), np.round(np.sqrt(area / ratio))
        fits = (h < height) & (w < width) & (unit[..., 0] < 0.5)
        top = np.floor(unit[..., 3] * (height - h + 1))
        left = np.floor(unit[..., 4] * (width - w + 1))
        box = np.stack([top, left, h, w], axis=-1)
        return np.where(fits[..., None], box, 0).astype(np.int16)
