from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def oracle() -> Path:
    """The folder of known-good values, where this checkout has one beside it."""
    folder = SHARED / "oracle"
    if not folder.is_dir():
        pytest.skip(
            "no folder ../shared/oracle beside this checkout: known-good values not compared"
        )
    return folder
