"""Configurations as TOML files: the user's own, and the one in the folder of every run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from basegraph.errors import unknown
from basegraph.storage import inputs
from basegraph.training.config import MISSING, SETTINGS, RunConfig


def read_toml(path: Path) -> dict[str, Any]:
    """The fields that a configuration file sets; unknown ones are refused."""
    return _known(path, inputs.read_toml("config", path))


def read_saved(path: Path) -> dict[str, Any]:
    """The fields that a run's own configuration file sets, or meant when it was written."""
    return {**MISSING, **_known(path, inputs.read_own_toml(path))}


def _known(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in SETTINGS:
            raise unknown(f"field of {path}", name, SETTINGS)
    return given


def to_toml(config: RunConfig) -> str:
    """The configuration as a TOML file."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in asdict(config).items())


def _toml(value: object) -> str:
    """A value of a field; the fields are texts, numbers and booleans only."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
