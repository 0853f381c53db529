"""The catalogue of datasets: load one by its name, or download its files."""

from __future__ import annotations

import os
import urllib.request
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path

import numpy as np

from basegraph.data._text import CONTEXT, EMBEDDED, text
from basegraph.data.archives import MAX_FILE_BYTES
from basegraph.data.dataset import OWN, DataError, Dataset, Split
from basegraph.data.formats import read_image_tree
from basegraph.data.published import DATASETS, check, missing, present
from basegraph.errors import InvalidArgument, unknown
from basegraph.extras import optional_imports
from basegraph.storage.files import replacing


def load(
    name: str, data_dir: Path | None = None, *, context: int = CONTEXT, tokenizer: str = ""
) -> Dataset:
    """Load a dataset.

    Args:
        name: `digits`, a name of `DATASETS`, `images:PATH`, a folder or tar of images by class,
            `text:PATH`, a text file or a folder of them, or `text`, a small one that is built in.
        data_dir: The folder of datasets; without it, $BASEGRAPH_DATA or ./data.
        context: Of text: tokens of a window.
        tokenizer: Of text: a tokenizer file; empty: bytes are tokens.

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
    if name == "text" or name.startswith("text:"):
        return _text(name, data_dir, context, tokenizer)
    if tokenizer:
        raise InvalidArgument("tokenizer", tokenizer, f"is for text, not for {name}")
    if name == "digits":
        return _digits()
    if name.startswith("images:"):
        train, test, names = read_image_tree(_located(name, data_dir, "folder or tar"))
        return Dataset(name, train, test, len(names))
    if name not in DATASETS:
        raise unknown("dataset", name, ["digits", "images:PATH", "text", "text:PATH", *DATASETS])
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
    known = dataset.name in ("digits", "text", *DATASETS)
    known = known or dataset.name.startswith(("images:", "text:"))
    return dataset.name if known else f"{OWN}{dataset.name}"


def data_folder(data_dir: Path | None) -> Path:
    """The folder of datasets: the one given, or $BASEGRAPH_DATA, or ./data."""
    return data_dir or Path(os.environ.get("BASEGRAPH_DATA", "data"))


def _text(name: str, data_dir: Path | None, context: int, tokenizer: str) -> Dataset:
    path = EMBEDDED if name == "text" else _located(name, data_dir, "file or folder")
    file = None
    if tokenizer:
        file = located(tokenizer, data_dir)
        if file is None:
            raise InvalidArgument("tokenizer", tokenizer, "there is no such file")
    dataset = text(path, context=context, tokenizer=file, name=name)
    assert dataset.text is not None
    return replace(dataset, text=replace(dataset.text, tokenizer=tokenizer))


def located(written: str, data_dir: Path | None) -> Path | None:
    """A file or folder: in the folder of datasets, or as it is written; None: there is none."""
    paths = (data_folder(data_dir) / written, Path(written).expanduser())
    return next((path for path in paths if written and path.exists()), None)


def _located(spec: str, data_dir: Path | None, kind: str) -> Path:
    """The PATH of `images:PATH` or `text:PATH`."""
    written = spec.partition(":")[2]
    path = located(written, data_dir)
    if path is not None:
        return path
    inside = data_folder(data_dir) / written
    elsewhere = "" if inside == Path(written) else f", nor {written}"
    missing_one = f"there is no {kind} {inside}{elsewhere}"
    raise DataError(f"{spec}: {missing_one if written else f'must name a {kind}'}")


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
