"""The samples and augmentations every node sees: a pure function of (seed, node, step).

A node goes through its samples again and again, in a new order each time; step t takes the places
t*B .. (t+1)*B - 1 of that endless stream. Whatever is drawn for a place comes from a counter-based
generator at that place, so a run can be resumed anywhere and any engine sees the same.

Shape legend: (steps, nodes, batch).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from basegraph.data.philox import raw_words
from basegraph.topologies.core.round import FloatArray, IntArray

_ORDER, _AUGMENT = 3, 4
PADDING = 4
"""Pixels around an image before a random crop."""
PADDINGS = ("zero", "black")
"""What these are: zero after normalization, or before it."""
NORMALIZATIONS = ("dataset", "half", "none")
"""Of images on 0..1: by mean and deviation of the training set, (x - 1/2) / (1/2), or none."""


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


class SamplePlanner:
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
        self._kept: dict[int, IntArray] = {}
        self._kept_for: IntArray | None = None

    def steps(self, first: int, last: int, nodes: Sequence[int] | None = None) -> EpochPlan:
        """The plan of steps first .. last-1, of all nodes or of some."""
        chosen = np.arange(len(self.parts)) if nodes is None else np.asarray(nodes)
        begin, end = first * self.batch, last * self.batch
        shape = (len(chosen), last - first, self.batch)
        sample = _steps_first(self._samples(chosen, begin, end).reshape(shape))
        if not self.augmentations:
            return EpochPlan(sample, None, None, None)
        raw = _steps_first(self._raw(chosen, begin, end).reshape(*shape, 8))
        return EpochPlan(
            sample,
            (raw[..., 0:2] % (2 * PADDING + 1)).astype(np.int16)
            if "crop" in self.augmentations
            else None,
            raw[..., 2] % 2 == 1 if "flip" in self.augmentations else None,
            self._erasures(raw) if "erase" in self.augmentations else None,
        )

    def _samples(self, nodes: IntArray, begin: int, end: int) -> IntArray:
        """(nodes, end - begin): the samples at these places of the nodes' streams."""
        size = self.parts.shape[1]
        turns = range(begin // size, (end - 1) // size + 1)
        order = np.concatenate(self._orders(nodes, turns), axis=1)
        here = order[:, begin - turns[0] * size : end - turns[0] * size]
        return np.take_along_axis(self.parts[nodes], here, axis=1)

    def _orders(self, nodes: IntArray, turns: range) -> list[IntArray]:
        """(nodes, size) for every turn: in which order a node goes through its samples."""
        if self._kept_for is None or not np.array_equal(self._kept_for, nodes):
            self._kept, self._kept_for = {}, nodes
        new = [turn for turn in turns if turn not in self._kept]
        streams = np.tile((nodes << 8) + _ORDER, len(new))
        raw = raw_words(
            self.seed, streams, np.repeat(new, len(nodes)).astype(np.int64), self.parts.shape[1]
        )
        shape = len(new), len(nodes), self.parts.shape[1]
        drawn = _order(raw).reshape(shape)
        known = self._kept | dict(zip(new, drawn, strict=True))
        self._kept = {turns[-1]: known[turns[-1]]}  # which the next steps may begin in
        return [known[turn] for turn in turns]

    def _raw(self, nodes: IntArray, begin: int, end: int) -> NDArray[np.uint16]:
        """(nodes, places, 8) numbers below 2^16: from one block of the generator for each place."""
        streams = (nodes << 8) + _AUGMENT
        words = raw_words(self.seed, streams, np.zeros_like(nodes), 4 * (end - begin), begin)
        halves = words.astype("<u8", copy=False).view("<u2")
        return halves.reshape(len(nodes), end - begin, 16)[..., :8]

    def _erasures(self, raw: NDArray[np.uint16]) -> NDArray[np.int16]:
        """Rectangles as torchvision's RandomErasing draws them, in one attempt; half erase none.

        The last five of a place's eight numbers decide.
        """
        height, width = self.image
        boxes = np.zeros((*raw.shape[:-1], 4), dtype=np.int16)
        flat = raw.reshape(-1, 8)
        erases = np.flatnonzero(flat[:, 3] < 2**15)
        shares, ratios = _erasing_tables()
        of_area, of_ratio, of_top, of_left = np.ascontiguousarray(flat[erases, 4:].T)
        area, ratio = (height * width * shares)[of_area], ratios[of_ratio]
        h, w = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
        fits = (h < height) & (w < width)
        box = np.empty((len(erases), 4), dtype=np.int16)
        box[:, 0] = (of_top + 0.5) / 2**16 * (height - h + 1)  # cut off, as these are not negative
        box[:, 1] = (of_left + 0.5) / 2**16 * (width - w + 1)
        box[:, 2], box[:, 3] = h, w
        boxes.reshape(-1, 4)[erases] = box * fits[:, None]
        return boxes


@cache
def _erasing_tables() -> tuple[FloatArray, FloatArray]:
    """For each of 2^16 numbers: the share of an area, the ratio of sides."""
    unit = (np.arange(2**16) + 0.5) / 2**16
    ratios = np.exp(np.log(0.3) + (np.log(3.3) - np.log(0.3)) * unit)
    return 0.02 + (0.33 - 0.02) * unit, ratios


def _order(raw: NDArray[np.uint64]) -> IntArray:
    """The order of the columns in every row by random numbers, of which the highest bits decide.

    The lowest bits make room for the number of the column: sorting such values is several times
    quicker than sorting numbers of columns, and says the same unless two of the other bits agree.

    >>> _order(np.array([[3 << 60, 1 << 60, 2 << 60]], dtype=np.uint64))
    array([[1, 2, 0]])
    """
    low = np.uint64((1 << (raw.shape[1] - 1).bit_length()) - 1)
    values = raw & ~low | np.arange(raw.shape[1], dtype=np.uint64)
    values.sort(axis=1)
    return (values & low).astype(np.int64)


def _steps_first(planned: NDArray[Any]) -> NDArray[Any]:
    """(nodes, steps, ...) -> (steps, nodes, ...), as it lies in memory."""
    return np.ascontiguousarray(planned.swapaxes(0, 1))
