"""What a result came from: command, code, machine and data."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np

_ARGV: ContextVar[list[str] | None] = ContextVar("argv", default=None)
"""The words of the command line that is run inside another program."""


def provenance(data: str) -> dict[str, str]:
    """What a result came from: command, versions, commit, machine and data.

    torch and the GPU are named only where this process has loaded torch.

    Args:
        data: A description of the data.

    Returns:
        What to write beside the result, as text by name.

    """
    from basegraph import __version__

    return {
        "command": _command(),
        "basegraph": __version__,
        "commit": commit(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        **_torch(),
        "data": data,
    }


@contextmanager
def recorded_command(argv: list[str] | None) -> Iterator[None]:
    """Record `basegraph ARGV` as the command of what is done in this block.

    Args:
        argv: The words after `basegraph`; None records `sys.argv`, as outside of any block.

    """
    token = _ARGV.set(argv)
    try:
        yield
    finally:
        _ARGV.reset(token)


def _command() -> str:
    """The command line, or the script that has called the library."""
    argv = _ARGV.get()
    if argv is not None:
        return shlex.join(["basegraph", *argv])
    script = Path(sys.argv[0])
    ours = script.stem == "basegraph" or script.parent.name == "basegraph"
    return shlex.join([*(["basegraph"] if ours else ["python", script.name]), *sys.argv[1:]])


def _torch() -> dict[str, str]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    versions = {"torch": str(torch.__version__)}
    if torch.cuda.is_available():
        versions["gpu"] = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    return versions


def commit() -> str:
    """The commit of the source this runs from, if it is a git checkout and git is there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown: git did not answer"
    return done.stdout.strip() or "unknown: not a checkout"
