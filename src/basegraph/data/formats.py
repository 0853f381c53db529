"""Readers of the official file formats: idx, CIFAR (python and binary), images by class.

Nothing here runs code from a file: of CIFAR's python version, which is pickled, only plain
containers and arrays of numbers are let through (`pickled.py`).
"""

from __future__ import annotations

import hashlib
import io
import math
import struct
import warnings
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from basegraph.data.archives import members, read_bytes
from basegraph.data.dataset import DataError, Images, Labels, Split
from basegraph.data.pickled import PickledArray, unpickle
from basegraph.extras import optional_imports

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp"}
IMAGE_FORMATS = ("JPEG", "PNG", "BMP")
MOST_AXES = 3
"""Of an idx file: samples, rows, columns."""
MAX_IMAGE_PIXELS = 2**24
"""The largest image that is decoded: 4096 by 4096."""
MAX_IMAGES_BYTES = 2**35
"""The most that all images of a dataset may take in memory: 32 GiB."""


def md5(content: bytes) -> str:
    """The checksum that dataset pages publish."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def md5_of_file(path: Path) -> str:
    """That of a file, which need not fit into memory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def read_idx(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """An idx file of unsigned bytes (MNIST and its kin), gzipped or not."""
    content = read_bytes(path)
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise DataError(f"{path}: is not an idx file of bytes")
    axes = content[3]
    if not 1 <= axes <= MOST_AXES:
        raise DataError(f"{path}: has {axes} axes; an idx file of images or labels has 1 to 3")
    start = 4 + 4 * axes
    if len(content) < start:
        raise DataError(f"{path}: is cut short in its header")
    shape = struct.unpack(f">{axes}I", content[4:start])
    size = math.prod(shape)
    if len(content) - start != size:
        raise DataError(f"{path}: has {len(content) - start} bytes of data instead of {size}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape).copy()


def read_idx_pair(images: Path, labels: Path) -> Split:
    """Grey images and their labels."""
    pixels = read_idx(images)
    return Split(pixels[:, None], read_idx(labels).astype(np.int64))


def parse_cifar_python(content: bytes, path: str, label: bytes) -> Split:
    """One batch of CIFAR's python version; `label` is b"labels" or b"fine_labels"."""
    try:
        batch = unpickle(content)
        images, labels = batch[b"data"], batch[label]
        if not isinstance(images, PickledArray) or images.values.dtype != np.uint8:
            raise DataError("data must be an array of bytes")
        if not isinstance(labels, list) or not all(type(one) is int for one in labels):
            raise DataError(f"{label.decode()} must be a list of integers")
        pixels = images.values.reshape(-1, 3, 32, 32)
        return Split(pixels, np.array(labels, dtype=np.int64))
    except Exception as error:  # whatever a broken or hostile pickle raises
        raise DataError(f"{path}: is not a CIFAR batch: {error}") from None


def parse_cifar_binary(content: bytes, path: str, label_bytes: int) -> Split:
    """One file of CIFAR's binary version: label bytes (the last one counts), then 3072 pixels."""
    record = label_bytes + 3072
    if not content or len(content) % record:
        raise DataError(f"{path}: {len(content)} bytes are not whole records of {record}")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    images = rows[:, label_bytes:].reshape(-1, 3, 32, 32)
    return Split(images, rows[:, label_bytes - 1].astype(np.int64))


def read_image_tree(path: Path) -> tuple[Split, Split, list[str]]:
    """train/CLASS/*.jpg and test/CLASS/*.jpg in a folder or a tar: (train, test, class names)."""
    images: dict[str, list[tuple[str, str, Images]]] = {"train": [], "test": []}

    def wanted(name: PurePosixPath) -> bool:
        parts = name.parts[-3:]
        return len(parts) == 3 and parts[0] in images and name.suffix.lower() in IMAGE_SUFFIXES

    room = MAX_IMAGES_BYTES
    for name, content in members(path, wanted):
        part, kind, file = name.parts[-3:]
        pixels = _decode(content, f"{path}: {name}")
        room -= pixels.nbytes
        if room < 0:
            raise DataError(f"{path}: its images take more than {MAX_IMAGES_BYTES} bytes in memory")
        images[part].append((kind, file, pixels.transpose(2, 0, 1)))
    names = sorted({kind for kind, _, _ in images["train"]})
    if not names:
        raise DataError(f"{path}: has no images train/CLASS/*.jpg")
    strangers = {kind for kind, _, _ in images["test"]} - set(names)
    if strangers:
        raise DataError(f"{path}: class {min(strangers)} is in test but not in train")
    return _stack(path, images["train"], names), _stack(path, images["test"], names), names


def _decode(content: bytes, name: str) -> Images:
    """The pixels (height, width, 3) of an image file, whose header is looked at first."""
    with optional_imports():
        from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(content), formats=IMAGE_FORMATS)
        width, height = image.size
        if width * height > MAX_IMAGE_PIXELS:
            raise DataError(f"{width} by {height} pixels, the limit is {MAX_IMAGE_PIXELS} in all")
        return np.asarray(image.convert("RGB"))
    except Exception as error:  # whatever a broken or hostile image raises
        raise DataError(f"{name} is not a whole image: {error}") from None


def _stack(path: Path, rows: list[tuple[str, str, Images]], names: list[str]) -> Split:
    rows = sorted(rows, key=lambda row: row[:2])
    shapes = {image.shape for _, _, image in rows}
    if len(shapes) > 1:
        raise DataError(f"{path}: images differ in size: {sorted(shapes)[:2]}")
    images = np.stack([image for _, _, image in rows]) if rows else np.empty((0, 3, 1, 1), np.uint8)
    labels: Labels = np.array([names.index(kind) for kind, _, _ in rows], dtype=np.int64)
    return Split(images, labels)
