"""The datasets by name: where their files go, what their checksums are, who publishes them."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath

import numpy as np

from basegraph.data.archives import MAX_FILE_BYTES, members, read_bytes
from basegraph.data.dataset import OWN, DataError, Dataset, Split
from basegraph.data.formats import (
    md5,
    md5_of_file,
    parse_cifar_binary,
    parse_cifar_python,
    read_idx_pair,
    read_image_tree,
)
from basegraph.errors import InvalidArgument, unknown
from basegraph.extras import optional_imports
from basegraph.storage.files import replacing

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
       "t10k-labels-idx1-ubyte")  # fmt: skip


@dataclass(frozen=True)
class Published:
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
    alternatives: tuple[tuple[Published, ...], ...]
    """Sets of files, any one of which is enough, in DATA_DIR/name."""
    read: Callable[[Path, tuple[Published, ...]], tuple[Split, Split]]
    classes: int


def _idx(*checksums: tuple[str, ...]) -> tuple[tuple[Published, ...], ...]:
    return (
        tuple(Published(f"{n}.gz", c) for n, c in zip(IDX, checksums, strict=True)),
        tuple(Published(n, c[1:]) for n, c in zip(IDX, checksums, strict=True)),
    )


def _read_idx(folder: Path, files: tuple[Published, ...]) -> tuple[Split, Split]:
    paths = [folder / file.name for file in files]
    return read_idx_pair(paths[0], paths[1]), read_idx_pair(paths[2], paths[3])


def _read_cifar(folder: Path, files: tuple[Published, ...]) -> tuple[Split, Split]:
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
                (Published("cifar-10-python.tar.gz", ("c58f30108f718f92721af3b95e74349a",)),),
                (Published("cifar-10-binary.tar.gz", ("c32a1d4ab5d03f1284b67883e8d87530",)),),
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
                (Published("cifar-100-python.tar.gz", ("eb9058c3a382ffc7106e4002c42a8d85",)),),
                (Published("cifar-100-binary.tar.gz", ("03b5dce01913d631647c71ecec9e9cb8",)),),
            ),
            _read_cifar,
            100,
        ),
    )
}
"""Datasets that are files. `digits` needs none; `images:PATH` is any folder or tar of images."""


def load(name: str, data_dir: Path | None = None) -> Dataset:
    """Load a dataset.

    Args:
        name: `digits`, a name of `DATASETS`, or `images:PATH`, a folder or tar of images by class.
        data_dir: The folder of datasets; without it, $BASEGRAPH_DATA or ./data.

    Returns:
        The dataset, in memory.

    Raises:
        InvalidArgument: The name is not known.
        DataError: The files are missing, or not what they should be.

    Example:
        >>> load("digits").shape
        (1, 8, 8)

    """
    if name.startswith(OWN):
        raise InvalidArgument("dataset", name, "was passed from Python: pass it again to train()")
    if name == "digits":
        return _digits()
    if name.startswith("images:"):
        path = data_folder(data_dir) / name.removeprefix("images:")
        if not path.exists():
            raise DataError(f"{name}: there is no folder or tar {path}")
        train, test, names = read_image_tree(path)
        return Dataset(name, train, test, len(names))
    if name not in DATASETS:
        raise unknown("dataset", name, ["digits", "images:PATH", *DATASETS])
    entry = DATASETS[name]
    folder = data_folder(data_dir) / name
    files = present(entry, folder)
    if files is None:
        raise DataError(missing(entry, folder))
    for file in files:
        problem = check(folder / file.name, file)
        if problem:
            raise DataError(problem)
    train, test = entry.read(folder, files)
    return Dataset(name, train, test, entry.classes)


def recorded_name(dataset: Dataset) -> str:
    """A dataset's name as a run records it: one that `load` knows, or marked as the user's own."""
    known = dataset.name in ("digits", *DATASETS) or dataset.name.startswith("images:")
    return dataset.name if known else f"{OWN}{dataset.name}"


def data_folder(data_dir: Path | None) -> Path:
    """The folder of datasets: the one given, or $BASEGRAPH_DATA, or ./data."""
    return data_dir or Path(os.environ.get("BASEGRAPH_DATA", "data"))


def present(entry: PublishedDataset, folder: Path) -> tuple[Published, ...] | None:
    """The first complete set of files that is there."""
    for files in entry.alternatives:
        if all((folder / file.name).is_file() for file in files):
            return files
    return None


def check(path: Path, file: Published) -> str | None:
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


def download(name: str, data_dir: Path | None = None, base: str | None = None) -> list[Path]:
    """Download a dataset's files; each is checked before it is kept.

    Args:
        name: A name of `DATASETS`.
        data_dir: The folder of datasets; without it, $BASEGRAPH_DATA or ./data.
        base: A URL to which file names are appended, in place of the authors' one.

    Returns:
        The files that were fetched; none if all were complete already.

    Raises:
        InvalidArgument: The name is not known, or the folder cannot be made.
        DataError: A file could not be fetched, or its checksum is wrong.

    """
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    entry = DATASETS[name]
    folder = data_folder(data_dir) / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument("data_dir", str(folder), f"cannot be made: {error}") from None
    fetched = []
    for file in entry.alternatives[0]:
        path = folder / file.name
        if path.is_file() and check(path, file) is None:
            continue
        with replacing(path) as temporary:
            try:
                _fetch((base or entry.base) + file.name, temporary)
            except (OSError, HTTPException) as error:
                raise DataError(f"{file.name}: cannot be fetched: {error}") from None
            problem = check(temporary, file)
            if problem:
                raise DataError(f"{file.name} as fetched: {problem.partition(': ')[2]}")
        fetched.append(path)
    return fetched


def _fetch(url: str, path: Path) -> None:
    with urllib.request.urlopen(url) as source, open(path, "wb") as file:
        left = MAX_FILE_BYTES
        while piece := source.read(2**20):
            left -= len(piece)
            if left < 0:
                raise DataError(f"{url}: is larger than {MAX_FILE_BYTES} bytes")
            file.write(piece)


def _digits() -> Dataset:
    """The 1797 digits of 8x8 pixels that come with scikit-learn; every fifth is for testing."""
    with optional_imports():
        from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images * 15).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    test = np.arange(len(labels)) % 5 == 4
    return Dataset(
        "digits", Split(images[~test], labels[~test]), Split(images[test], labels[test]), 10
    )
