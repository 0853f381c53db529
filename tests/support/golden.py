"""Known-good values: tests/golden/*.json, each with a note of where its values come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "golden"


def golden(name: str) -> dict[str, Any]:
    """The values of a file by its name without .json, without the note."""
    values = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert values.pop("about")
    return values
