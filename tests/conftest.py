from __future__ import annotations

import os
from pathlib import Path

import pytest

# One thread each: pytest runs as many processes as there are cores, and so do their children.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real datasets, where this checkout has one beside it."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("no folder ../shared/data beside this checkout: real data not read")
    return folder
