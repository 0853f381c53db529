"""What a result came from: command, code, machine and data."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np


def provenance(data: str) -> dict[str, str]:
    """Command, version, commit (where the source is a checkout), machine and data."""
    from basegraph import __version__

    command = ["basegraph", *sys.argv[1:]]
    return {
        "command": shlex.join(command),
        "basegraph": __version__,
        "commit": _commit(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "data": data,
    }


def _commit() -> str:
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
