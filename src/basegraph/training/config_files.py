"""Configurations in TOML files: the user's own, and the one in the folder of every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from basegraph.errors import unknown
from basegraph.storage import inputs
from basegraph.training.config import SETTINGS, as_saved


def read_toml(path: Path) -> dict[str, Any]:
    """The fields that a configuration file sets; unknown ones are refused."""
    return _known(path, inputs.read_toml("config", path))


def read_saved(path: Path) -> dict[str, Any]:
    """The fields that a run's own configuration file sets, or meant when it was written.

    Raises:
        BadFile: It is empty, too large, or not TOML.

    """
    saved = inputs.read_own_toml(path)
    if not saved:
        raise inputs.BadFile(f"{path}: is empty: remove its folder to make the run again")
    return as_saved(_known(path, saved))


def _known(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in SETTINGS:
            raise unknown(f"field of {path}", name, SETTINGS)
    return given
