"""How much main memory there is for what is about to be read or made."""

from __future__ import annotations

import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")


def available_memory() -> int:
    """Bytes of main memory that can be allocated; where that is unknown, all that there is."""
    if MEMINFO.is_file():
        lines = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
