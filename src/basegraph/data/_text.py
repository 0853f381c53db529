"""Text files as windows of tokens: one file, one domain.

The tokens of a file are cut into windows of T tokens, one after another. A window's targets are its
inputs shifted by one, so it is stored as T + 1 tokens: all windows are the rows of one array, and
inputs and targets are views of it. The end of every file is held out as test text.

Shape legend: rows (N, T + 1); inputs and targets (N, T).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from basegraph.data.dataset import Array, DataError, Dataset, Labels, Split, Text
from basegraph.data.tokenizer import ByteTokenizer, FileTokenizer, Tokenizer, Tokens
from basegraph.errors import InvalidArgument
from basegraph.storage.memory import available_memory
from basegraph.topologies.core.integers import at_least

CONTEXT = 256
"""Tokens of a window, where neither the model nor the user says how many."""
HELD_OUT = 1 / 20
"""The share of every file that is held out, at its end."""
MAX_TEXT_BYTES = 2**35
"""The most that all files of a text may have together: 32 GiB."""
EMBEDDED = Path(__file__).parent / "embedded"
"""A small text that comes with the package."""


def text(
    path: Path | str,
    *,
    context: int = CONTEXT,
    tokenizer: Path | str | None = None,
    held_out: float = HELD_OUT,
    name: str | None = None,
) -> Dataset:
    """Read a text file, or a folder of .txt files, as windows of tokens: every file is a domain.

    Args:
        path: The file or folder; of a folder, all .txt files in it and below it, links followed,
            but for hidden ones.
        context: Tokens of a window.
        tokenizer: A tokenizer file of the `tokenizers` package; if left out, bytes are tokens.
        held_out: The share of every file, at its end, that is the test text: at least one window.
        name: What runs record; if left out, `text:PATH`.

    Returns:
        The dataset: windows (N, T) of tokens, each with the token that comes next as its target.

    Raises:
        DataError: There is no text, a file is too short for a training and a test window, or it is
            not UTF-8 where a tokenizer is used.
        InvalidArgument: Of an argument that is not what it should be.
        MissingExtra: A tokenizer is asked for, and the `tokenizers` package is not installed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("birds", "fish"):
        ...         _ = Path(folder, f"{name}.txt").write_text(f"All about {name}. " * 50)
        ...     dataset = text(folder, context=16)
        >>> dataset.text.domains, dataset.vocabulary, dataset.train.inputs.shape
        (('birds', 'fish'), 256, (97, 16))
        >>> bytes(dataset.train.inputs[0]), bytes(dataset.train.targets[0])
        (b'All about birds.', b'll about birds. ')

    """
    context = at_least(1, below=2**31, context=context)
    if not isinstance(held_out, int | float) or not 0 <= held_out < 1:
        raise InvalidArgument("held_out", held_out, "must be a number in [0, 1)")
    for argument, value in (("path", path), ("tokenizer", tokenizer)):
        given = isinstance(value, str | Path) and str(value)
        if not given and not (argument == "tokenizer" and value is None):
            raise InvalidArgument(argument, value, "must be the path of a file or folder")
    if name is not None and not (isinstance(name, str) and name):
        raise InvalidArgument("name", name, "must be a name, or None")
    files = _files(Path(path))
    chosen = ByteTokenizer() if tokenizer is None else FileTokenizer(Path(tokenizer))
    parts = [_windows(file, chosen, context, held_out) for file in files.values()]
    train, test = _joined([p.train for p in parts]), _joined([p.test for p in parts])
    facts = Text(
        tuple(files),
        _repeated([len(p.test.rows) for p in parts]),
        train.sizes,
        test.sizes,
        "" if tokenizer is None else str(tokenizer),
        "" if isinstance(chosen, ByteTokenizer) else chosen.checksum,
    )
    return Dataset(
        name or f"text:{path}",
        Split(train.rows[:, :-1], train.rows[:, 1:]),
        Split(test.rows[:, :-1], test.rows[:, 1:]),
        groups=_repeated([len(p.train.rows) for p in parts]),
        vocabulary=chosen.vocabulary,
        text=facts,
    )


class _Windows(NamedTuple):
    """Windows of a text."""

    rows: Array
    """(N, T + 1): each has the token that follows its last one."""
    sizes: Labels
    """(N,) bytes of text that all of its tokens but the first stand for."""


class _File(NamedTuple):
    train: _Windows
    test: _Windows


def _files(path: Path) -> dict[str, Path]:
    """The files of a text by the names of their domains, in alphabetical order."""
    if path.is_file():
        files = {path.stem: path}
    elif path.is_dir():
        below = sorted(p.relative_to(path) for p in _text_files(path))
        files = {p.with_suffix("").as_posix(): path / p for p in below}
        if len(files) < len(below):
            raise DataError(f"{path}: has two files whose names differ only in the case of .txt")
    else:
        raise DataError(f"text:{path}: there is no such file or folder")
    if not files:
        raise DataError(f"{path}: has no .txt files")
    for domain in files:
        if not domain.isprintable():
            raise DataError(f"{path}: the name of the file {domain!r} is not printable")
    total = sum(file.stat().st_size for file in files.values())
    limit = min(MAX_TEXT_BYTES, available_memory() // 2)  # windows are copied into one array
    if total > limit:
        why = "the limit" if limit == MAX_TEXT_BYTES else "the memory available here"
        raise DataError(f"{path}: has {total} bytes of text; {why} is {limit}")
    return files


def _text_files(folder: Path) -> Iterator[Path]:
    """All .txt files in a folder and below it that are not hidden, each folder once."""
    entered: set[Path] = set()
    for where, folders, names in os.walk(folder, followlinks=True, onerror=_unreadable):
        here = Path(where)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if here.resolve() in entered:
            folders.clear()
            continue
        entered.add(here.resolve())
        for name in names:
            file = here / name
            if not name.lower().endswith(".txt") or name.startswith("."):
                continue
            if file.is_symlink() and not file.exists():
                raise DataError(f"{file}: is a broken symbolic link")
            if file.is_file():
                yield file


def _unreadable(error: OSError) -> None:
    raise DataError(f"{error.filename}: cannot be read: {error.strerror}")


def _windows(path: Path, tokenizer: Tokenizer, context: int, held_out: float) -> _File:
    """The training and the test windows of a file, which is only read where it is needed."""
    try:
        size = path.stat().st_size
        content = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    encoded = tokenizer.encode(content, str(path))
    count = len(encoded.tokens)
    last = max(context + 1, math.ceil(count * held_out))
    if count - last < context + 1:
        raise DataError(
            f"{path}: has {count} tokens; a training and a test window of context {context} take "
            f"{max(2 * context + 2, context + 1 + last)}"
        )
    return _File(
        _cut(encoded, 0, count - last, context),
        _cut(encoded, count - last, count, context),
    )


def _cut(encoded: Tokens, begin: int, end: int, context: int) -> _Windows:
    """The windows of some consecutive tokens, as views."""
    count = (end - begin - 1) // context
    part = encoded.tokens[begin : begin + count * context + 1]
    rows = np.lib.stride_tricks.sliding_window_view(part, context + 1)[::context]
    if encoded.ends is None:
        return _Windows(rows, np.full(count, context, dtype=np.int64))
    ends = encoded.ends[begin : begin + count * context + 1 : context]
    return _Windows(rows, np.diff(ends))


def _joined(parts: list[_Windows]) -> _Windows:
    """The windows of all files, in one array."""
    rows = np.empty((sum(len(p.rows) for p in parts), parts[0].rows.shape[1]), parts[0].rows.dtype)
    np.concatenate([p.rows for p in parts], out=rows)
    return _Windows(rows, np.concatenate([p.sizes for p in parts]))


def _repeated(counts: list[int]) -> Labels:
    """0 so many times, then 1 so many times, and so on."""
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)
