"""The datasets that their authors publish as files: names, checksums, addresses, readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from basegraph.data.archives import members, read_bytes
from basegraph.data.dataset import DataError, Split
from basegraph.data.formats import (
    md5,
    md5_of_file,
    parse_cifar_binary,
    parse_cifar_python,
    read_idx_pair,
)

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
       "t10k-labels-idx1-ubyte")  # fmt: skip


@dataclass(frozen=True)
class PublishedFile:
    """A file of a dataset as its authors publish it."""

    name: str
    checksums: tuple[str, ...]
    """MD5 of the file, and of what it unzips to where that is known; none: not checked."""


@dataclass(frozen=True)
class PublishedDataset:
    """A dataset of the catalogue."""

    name: str
    what: str
    site: str
    """Where the authors publish it."""
    base: str
    """What the names of its files are appended to for a download."""
    alternatives: tuple[tuple[PublishedFile, ...], ...]
    """Sets of files, any one of which is enough, in DATA_DIR/name."""
    read: Callable[[Path, tuple[PublishedFile, ...]], tuple[Split, Split]]
    classes: int


def _idx(*checksums: tuple[str, ...]) -> tuple[tuple[PublishedFile, ...], ...]:
    return (
        tuple(PublishedFile(f"{n}.gz", c) for n, c in zip(IDX, checksums, strict=True)),
        tuple(PublishedFile(n, c[1:]) for n, c in zip(IDX, checksums, strict=True)),
    )


def _read_idx(folder: Path, files: tuple[PublishedFile, ...]) -> tuple[Split, Split]:
    paths = [folder / file.name for file in files]
    return read_idx_pair(paths[0], paths[1]), read_idx_pair(paths[2], paths[3])


def _read_cifar(folder: Path, files: tuple[PublishedFile, ...]) -> tuple[Split, Split]:
    hundred = "100" in files[0].name
    binary = "binary" in files[0].name
    train_names, test_names = ("train", "test") if hundred else ("data_batch", "test_batch")
    splits: dict[str, list[Split]] = {"train": [], "test": []}

    def part(path: PurePosixPath) -> str | None:
        stem = path.name.removesuffix(".bin")
        if path.suffix not in ("", ".bin"):
            return None
        if stem.startswith(train_names):
            return "train"
        return "test" if stem.startswith(test_names) else None

    for path, content in members(folder / files[0].name, lambda path: part(path) is not None):
        which = part(path)
        assert which is not None
        if binary:
            splits[which].append(parse_cifar_binary(content, str(path), 2 if hundred else 1))
        else:
            label = b"fine_labels" if hundred else b"labels"
            splits[which].append(parse_cifar_python(content, str(path), label))
    if not splits["train"] or not splits["test"]:
        raise DataError(f"{folder / files[0].name}: has no CIFAR batches inside")
    joined = [
        Split(
            np.concatenate([s.inputs for s in splits[which]]),
            np.concatenate([s.targets for s in splits[which]]),
        )
        for which in ("train", "test")
    ]
    return joined[0], joined[1]


_MNIST = (
    ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
)
_FASHION = (
    ("8d4fb7e6c68d591d4c3dfef9ec88bf0d",),
    ("25c81989df183df01b3e8a0aad5dffbe",),
    ("bef4ecab320f06d8554ea6380940ec79",),
    ("bb300cfdad3c16e7a12a480ee83cd310",),
)
DATASETS = {
    entry.name: entry
    for entry in (
        PublishedDataset(
            "mnist",
            "handwritten digits, 28x28 grey",
            "yann.lecun.com/exdb/mnist",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            _idx(*_MNIST),
            _read_idx,
            10,
        ),
        PublishedDataset(
            "fashion-mnist",
            "articles of clothing, 28x28 grey",
            "github.com/zalandoresearch/fashion-mnist",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            _idx(*_FASHION),
            _read_idx,
            10,
        ),
        PublishedDataset(
            "cifar10",
            "objects, 32x32 color, ten classes",
            "www.cs.toronto.edu/~kriz/cifar.html",
            "https://www.cs.toronto.edu/~kriz/",
            (
                (PublishedFile("cifar-10-python.tar.gz", ("c58f30108f718f92721af3b95e74349a",)),),
                (PublishedFile("cifar-10-binary.tar.gz", ("c32a1d4ab5d03f1284b67883e8d87530",)),),
            ),
            _read_cifar,
            10,
        ),
        PublishedDataset(
            "cifar100",
            "objects, 32x32 color, a hundred classes",
            "www.cs.toronto.edu/~kriz/cifar.html",
            "https://www.cs.toronto.edu/~kriz/",
            (
                (PublishedFile("cifar-100-python.tar.gz", ("eb9058c3a382ffc7106e4002c42a8d85",)),),
                (PublishedFile("cifar-100-binary.tar.gz", ("03b5dce01913d631647c71ecec9e9cb8",)),),
            ),
            _read_cifar,
            100,
        ),
    )
}
"""Datasets that are files. `digits` needs none; `images:PATH` is any folder or tar of images."""


def present(entry: PublishedDataset, folder: Path) -> tuple[PublishedFile, ...] | None:
    """The first complete set of files that is there."""
    for files in entry.alternatives:
        if all((folder / file.name).is_file() for file in files):
            return files
    return None


def check(path: Path, file: PublishedFile) -> str | None:
    """What is wrong with a file, or None: its checksum, zipped or unzipped, must be a known one."""
    if not file.checksums:
        return None
    checksum = md5_of_file(path)
    if checksum in file.checksums:
        return None
    if path.suffix == ".gz" and not path.name.endswith(".tar.gz"):
        try:
            unzipped = md5(read_bytes(path))
        except DataError as error:
            return str(error)
        if unzipped in file.checksums:
            return None
    return f"{path}: MD5 {checksum} is not the published {file.checksums[0]}"


def missing(entry: PublishedDataset, folder: Path) -> str:
    """Where the files of a dataset go and where they come from."""
    names = ", ".join(file.name for file in entry.alternatives[0])
    return (
        f"{entry.name}: put {names} into {folder} (published at {entry.site}; "
        f"`basegraph data download {entry.name}` fetches them)"
    )
