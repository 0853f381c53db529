"""Output files: refused before the work starts, and never left half-written."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from basegraph.errors import InvalidArgument, RuntimeFailure

TEMPORARY = ".basegraph-"
"""What the name of a file begins with that is being written and has not its own name yet."""
LONGEST_NAME = 230
"""Of a file: the temporary one beside it is a little longer, and 255 is the limit of most disks."""


class CannotWrite(RuntimeFailure, OSError):
    """A file could not be written: the disk is full, say. What was there before is intact."""


class AlreadyExists(InvalidArgument):
    """A file would be overwritten, which has to be asked for (`force`)."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file whose writing fails in here."""
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotWrite(f"{path}: cannot be written: {reason}") from error


def writable(argument: str, path: Path, *, suffixes: tuple[str, ...] = (), force: bool) -> Path:
    """Check, before the work starts, that a file can be written.

    Args:
        argument: What the caller calls the path; refusals name it.
        path: Where the file shall be.
        suffixes: Endings of its name, one of which it must have; none: any.
        force: Whether an existing file may be overwritten.

    Returns:
        The path.

    Raises:
        AlreadyExists: There is a file of this name, and `force` is not set.
        InvalidArgument: The path is not one that can be written.

    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise InvalidArgument(argument, str(path), f"must end in {' or '.join(suffixes)}")
    folder = path.parent
    if not folder.is_dir():
        raise InvalidArgument(argument, str(path), f"the folder {str(folder)!r} does not exist")
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise InvalidArgument(argument, path.name, f"must be at most {LONGEST_NAME} bytes long")
    if path.is_dir():
        raise InvalidArgument(argument, str(path), "is a folder")
    if path.exists() and not force:
        raise AlreadyExists(argument, str(path), "exists already")
    try:
        with tempfile.NamedTemporaryFile(prefix=_prefix(path), suffix=path.suffix, dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidArgument(argument, str(path), f"cannot be written: {reason}") from None
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file atomically: a temporary path that takes the place of `path` after the block.

    If the block raises, `path` is as it was and the temporary file is gone.

    Args:
        path: The file to write or replace.

    Yields:
        The temporary path, in the same folder, to be written by the block.

    Raises:
        CannotWrite: The file cannot be written: the disk is full, say.

    """
    with writing(path):
        handle, name = tempfile.mkstemp(path.suffix, _prefix(path), path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        with writing(path):
            yield temporary
            with open(temporary, "rb+") as written:
                os.fsync(written.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)  # mkstemp's files are private; a result is not
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def leftovers(path: Path) -> list[Path]:
    """What `replacing(path)` has left beside it where the process was killed; no other file."""
    name = re.compile(f"{re.escape(_prefix(path))}[a-z0-9_]{{8}}{re.escape(path.suffix)}")
    near = path.parent.glob(f"{TEMPORARY}*")
    return sorted(rest for rest in near if name.fullmatch(rest.name) and rest.is_file())


def _prefix(path: Path) -> str:
    return f"{TEMPORARY}{path.stem}."


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on disk."""
    if os.name == "nt":  # where folders cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network disks do not know it
            raise
    finally:
        os.close(handle)
