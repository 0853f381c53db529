"""What a measurement came from: command, commit, machine. Printed above every benchmark."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np


def header() -> str:
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    model = next(
        (line.partition(":")[2].strip() for line in _cpu_info() if line.startswith("model name")),
        platform.processor(),
    )
    return "\n".join(
        [
            f"command  python {' '.join(sys.argv)}",
            f"commit   {commit or 'unknown'}",
            f"machine  {os.cpu_count()} cores, {model}",
            f"with     Python {platform.python_version()}, numpy {np.__version__}",
        ]
    )


def _cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
