"""Bytes from files, folders and archives, never more of them than a limit allows.

A compressed file of a few megabytes can hold terabytes of zeros. Whatever is unpacked here is read
in pieces of a known size, and other files are skipped without being held in memory.
"""

from __future__ import annotations

import gzip
import importlib
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from basegraph.data.dataset import DataError

MAX_FILE_BYTES = 2**28
"""The largest file that is read, after unpacking: 256 MiB (CIFAR-100's training set has 155)."""
MAX_ARCHIVE_BYTES = 2**36
"""The most that an archive may unpack to, skipped files included: 64 GiB."""
_COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "lzma",
    b"]\x00\x00": "lzma",
}
"""What a compressed file begins with, and the module that opens it."""


def read_bytes(path: Path) -> bytes:
    """A file's content, unzipped if its name ends in .gz."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if len(content) > MAX_FILE_BYTES:
        raise DataError(f"{path}: is larger than {MAX_FILE_BYTES} bytes unpacked")
    return content


def members(
    path: Path, wanted: Callable[[PurePosixPath], bool]
) -> Iterator[tuple[PurePosixPath, bytes]]:
    """(path, content) of the wanted files in a folder (by path) or a tar of any compression."""
    if path.is_dir():
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            name = PurePosixPath(file.relative_to(path).as_posix())
            if wanted(name):
                _refuse_large(path, name, file.stat().st_size)
                yield name, file.read_bytes()
        return
    _refuse_cut_tar(path)
    try:
        with (
            _opened(path) as file,
            tarfile.open(fileobj=_Bounded(file, path), mode="r:") as archive,
        ):
            while (member := archive.next()) is not None:
                # Or it would keep every header it has seen.
                archive.members.clear()  # type: ignore[attr-defined]
                name = PurePosixPath(member.name)
                if not member.isfile() or not wanted(name):
                    continue
                _refuse_large(path, name, member.size)
                reader = archive.extractfile(member)
                assert reader is not None
                yield name, reader.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    except Exception as error:  # lzma, which some Pythons lack, has no common base with the others
        if type(error).__module__ != "_lzma":
            raise
        raise DataError(f"{path}: cannot be read: {error}") from None


class _Bounded(io.RawIOBase):
    """What tarfile reads from: no large piece at once (a header can ask for one), and an end."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file = file
        self._path = path

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_FILE_BYTES:
            raise DataError(f"{self._path}: a header is larger than {MAX_FILE_BYTES} bytes")
        self._refuse_beyond(self._file.tell() + size)
        content: bytes = self._file.read(size)
        return content

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert whence == io.SEEK_SET
        self._refuse_beyond(offset)
        position: int = self._file.seek(offset)
        return position

    def tell(self) -> int:
        position: int = self._file.tell()
        return position

    def _refuse_beyond(self, position: int) -> None:
        if position > MAX_ARCHIVE_BYTES:
            raise DataError(f"{self._path}: unpacks to more than {MAX_ARCHIVE_BYTES} bytes")


def _opened(path: Path) -> Any:
    """The file, unpacked as it is read."""
    with open(path, "rb") as file:
        beginning = file.read(max(map(len, _COMPRESSIONS)))
    for magic, module in _COMPRESSIONS.items():
        if beginning.startswith(magic):
            try:
                return importlib.import_module(module).open(path)
            except ImportError:
                raise DataError(f"{path}: this Python cannot unpack {module}") from None
    return open(path, "rb")


def _refuse_large(path: Path, name: PurePosixPath, size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise DataError(f"{path}: {name} has {size} bytes, the limit is {MAX_FILE_BYTES}")


def _refuse_cut_tar(path: Path) -> None:
    """An uncompressed tar ends with two empty blocks; without them tarfile just stops early."""
    if path.suffix == ".tar" and path.is_file():
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 1024))
            if file.read() != bytes(1024):
                raise DataError(f"{path}: is cut short")
