"""Readers of the official file formats: idx, CIFAR (python and binary), images by class.

Nothing here runs code from a file: CIFAR's python version is pickled, and only plain containers
and numpy arrays are let through.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np

from basegraph.data.dataset import DataError, Images, Labels, Split

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp"}


def read_bytes(path: Path) -> bytes:
    """A file's content, unzipped if its name ends in .gz."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


def md5(content: bytes) -> str:
    """The checksum that dataset pages publish."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def read_idx(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """An idx file of unsigned bytes (MNIST and its kin), gzipped or not."""
    content = read_bytes(path)
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise DataError(f"{path}: is not an idx file of bytes")
    axes = content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise DataError(f"{path}: is cut short in its header")
    shape = struct.unpack(f">{axes}I", content[4:start])
    size = int(np.prod(shape))
    if len(content) - start != size:
        raise DataError(f"{path}: has {len(content) - start} bytes of data instead of {size}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_idx_pair(images: Path, labels: Path) -> Split:
    """Grey images and their labels."""
    pixels = read_idx(images)
    return Split(pixels[:, None], read_idx(labels).astype(np.int64))


class _OnlyArrays(pickle.Unpickler):
    """Unpickles containers, strings, numbers and numpy arrays, and refuses everything else."""

    ALLOWED: ClassVar = {
        ("numpy.core.multiarray", "_reconstruct"): ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"): ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"): ("numpy", "ndarray"),
        ("numpy", "dtype"): ("numpy", "dtype"),
        ("_codecs", "encode"): ("_codecs", "encode"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"refuses {module}.{name}")
        return super().find_class(*self.ALLOWED[module, name])


def parse_cifar_python(content: bytes, path: str, label: bytes) -> Split:
    """One batch of CIFAR's python version; `label` is b"labels" or b"fine_labels"."""
    try:
        batch = _OnlyArrays(io.BytesIO(content), encoding="bytes").load()
        images = np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32)
        labels = np.asarray(batch[label], dtype=np.int64)
    except Exception as error:  # whatever a broken or hostile pickle raises
        raise DataError(f"{path}: is not a CIFAR batch: {error}") from None
    return Split(images, labels)


def parse_cifar_binary(content: bytes, path: str, label_bytes: int) -> Split:
    """One file of CIFAR's binary version: label bytes (the last one counts), then 3072 pixels."""
    record = label_bytes + 3072
    if not content or len(content) % record:
        raise DataError(f"{path}: {len(content)} bytes are not whole records of {record}")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    images = rows[:, label_bytes:].reshape(-1, 3, 32, 32)
    return Split(images, rows[:, label_bytes - 1].astype(np.int64))


def members(path: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """(path, content) of every file in a folder or a tar (of any compression), by path."""
    if path.is_dir():
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            yield PurePosixPath(file.relative_to(path).as_posix()), file.read_bytes()
        return
    _refuse_cut_tar(path)
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile():
                    reader = archive.extractfile(member)
                    assert reader is not None
                    yield PurePosixPath(member.name), reader.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    except Exception as error:  # lzma has no common base with the others
        if type(error).__module__ != "_lzma":
            raise
        raise DataError(f"{path}: cannot be read: {error}") from None


def _refuse_cut_tar(path: Path) -> None:
    """An uncompressed tar ends with two empty blocks; without them tarfile just stops early."""
    if path.suffix == ".tar" and path.is_file():
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 1024))
            if file.read() != bytes(1024):
                raise DataError(f"{path}: is cut short")


def read_image_tree(path: Path) -> tuple[Split, Split, list[str]]:
    """train/CLASS/*.jpg and test/CLASS/*.jpg in a folder or a tar: (train, test, class names)."""
    from PIL import Image, UnidentifiedImageError

    found: dict[str, list[tuple[str, str, Images]]] = {"train": [], "test": []}
    for name, content in members(path):
        parts = name.parts[-3:]
        if len(parts) < 3 or parts[0] not in found or name.suffix.lower() not in IMAGE_SUFFIXES:
            continue
        try:
            pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
        except (UnidentifiedImageError, OSError) as error:
            raise DataError(f"{path}: {name} is not a whole image: {error}") from None
        found[parts[0]].append((parts[1], parts[2], pixels.transpose(2, 0, 1)))
    names = sorted({kind for kind, _, _ in found["train"]})
    if not names:
        raise DataError(f"{path}: has no images train/CLASS/*.jpg")
    strangers = {kind for kind, _, _ in found["test"]} - set(names)
    if strangers:
        raise DataError(f"{path}: class {min(strangers)} is in test but not in train")
    return _stack(path, found["train"], names), _stack(path, found["test"], names), names


def _stack(path: Path, rows: list[tuple[str, str, Images]], names: list[str]) -> Split:
    rows = sorted(rows, key=lambda row: row[:2])
    shapes = {image.shape for _, _, image in rows}
    if len(shapes) > 1:
        raise DataError(f"{path}: images differ in size: {sorted(shapes)[:2]}")
    images = np.stack([image for _, _, image in rows]) if rows else np.empty((0, 3, 1, 1), np.uint8)
    labels: Labels = np.array([names.index(kind) for kind, _, _ in rows], dtype=np.int64)
    return Split(images, labels)
