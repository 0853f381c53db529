"""A lock on a folder, held by one process at a time and gone when that process is.

It is an OS lock (flock) on the file `.lock` in the folder. The file names the holder, who removes
it in the end; a killed process leaves the file, but not the lock. Windows has no flock: nothing is
locked there.

Processes of one job, of which the present one uses the folder, take the lock from each other: the
one before may hang. Whoever takes it replaces the file, by which the one before can tell.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from basegraph.errors import InvalidArgument

if sys.platform != "win32":
    import fcntl

LOG = logging.getLogger("basegraph")
LOCK_FILE = ".lock"
ATTEMPTS = 100
"""Of finding a folder that others are making and removing at the same time."""

_handles: set[int] = set()


def _close_in_forked_child() -> None:
    """A fork is another process: it must not keep the lock when its parent is gone."""
    for handle in _handles:
        os.close(handle)
    _handles.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_in_forked_child)


class Lock:
    """A lock that is held, as long as no process of the same job takes it.

    Args:
        handle: Of the file that is locked.
        path: The name of that file.

    """

    def __init__(self, handle: int, path: Path) -> None:
        self._handle = handle
        self._path = path

    @property
    def held(self) -> bool:
        """Whether it still is this process's."""
        return _is_at(self._handle, self._path)


@contextmanager
def locked(argument: str, folder: Path, job: str = "") -> Iterator[Lock | None]:
    """Hold a folder for this process alone; it is made if need be, and removed again if unused.

    Args:
        argument: What the user calls the folder, for the error.
        folder: The folder.
        job: The job whose processes take the lock from each other; without one none does.

    Yields:
        The lock; None where there are no locks.

    Raises:
        InvalidArgument: Another process holds the folder, or it cannot be made or written to.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, locked("out", Path(folder)):
        ...     with locked("out", Path(folder)):
        ...         pass
        Traceback (most recent call last):
        basegraph.errors.InvalidArgument: out='...': is in use by process ... on ...

    """
    if sys.platform == "win32":
        yield None
        return
    handle, made = _acquire(argument, folder, job)
    _handles.add(handle)
    owner = os.getpid()
    try:
        yield Lock(handle, folder / LOCK_FILE)
    finally:
        if os.getpid() == owner:  # not a fork of it, which leaves the same block
            if _is_at(handle, folder / LOCK_FILE):
                (folder / LOCK_FILE).unlink()  # while it is held: what is removed cannot be held
            _handles.remove(handle)
            os.close(handle)
            with suppress(OSError):  # a folder that is in use
                for path in made:
                    path.rmdir()


def holder(folder: Path) -> str | None:
    """Who holds a folder, asked without touching its lock.

    A process of another machine counts as alive as long as its file is there.

    Args:
        folder: The folder.

    Returns:
        The holder in words, or None where there is none, or one of this machine that is gone.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with locked("out", Path(folder)):
        ...         held = holder(Path(folder))
        ...     print(held, holder(Path(folder)))
        process ... on ... None

    """
    try:
        with open(folder / LOCK_FILE, "rb") as file:
            text = file.read(1000).decode(errors="replace").strip()
    except OSError:
        return None
    named = re.match(r"process (\d+) on (\S+)", text)
    if named is None or named[2] != socket.gethostname() or sys.platform == "win32":
        return text or "another process"
    try:
        os.kill(int(named[1]), 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:  # of another user's process, which is there
        pass
    return text


def _acquire(argument: str, folder: Path, job: str) -> tuple[int, list[Path]]:
    """The descriptor of the folder's lock file, locked, and the folders that were made for it."""
    made: list[Path] = []
    for attempt in range(ATTEMPTS):
        try:
            made = [path for path in (folder, *folder.parents) if not path.exists()] or made
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            vanished = isinstance(error, FileNotFoundError | FileExistsError)
            if vanished and not folder.is_file() and attempt < ATTEMPTS - 1:
                continue  # another process has just removed the folder that it had made
            reason = error.strerror or str(error)
            raise InvalidArgument(argument, str(folder), f"cannot be used: {reason}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                holder = os.read(handle, 1000).decode(errors="replace").strip()
                if job and holder.endswith(_of(job)):
                    if _is_at(handle, folder / LOCK_FILE):
                        (folder / LOCK_FILE).unlink(missing_ok=True)
                    os.close(handle)
                    continue
                os.close(handle)
                accepted = f"is in use by {holder or 'another process'}"
                raise InvalidArgument(argument, str(folder), accepted) from None
            reason = error.strerror or str(error)
            LOG.warning(
                "%s: cannot be locked (%s): make sure that no other process uses it", folder, reason
            )
        if _is_at(handle, folder / LOCK_FILE):
            os.ftruncate(handle, 0)
            holder = f"process {os.getpid()} on {socket.gethostname()}{_of(job) if job else ''}"
            os.write(handle, f"{holder}\n".encode())
            return handle, made
        os.close(handle)  # the holder before has removed the file since it was opened
    raise InvalidArgument(
        argument,
        str(folder),
        f"could not be locked in {ATTEMPTS} attempts: other processes are using it",
    )


def _of(job: str) -> str:
    return f" of job {job}"


def _is_at(handle: int, path: Path) -> bool:
    """Whether this is still the file of that name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
