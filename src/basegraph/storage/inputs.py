"""Text files that others may have written: refused in one line where they are too large or broken.

Whatever is read here is read up to a limit, so that no file can fill the memory.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from basegraph.errors import BasegraphError, InvalidArgument

MAX_TEXT_BYTES = 2**20
"""The largest TOML or JSON file, or note, that is read: 1 MiB."""


class BadFile(BasegraphError):
    """A file that is too large, or not what it should be."""


def read_text(path: Path, most: int = MAX_TEXT_BYTES) -> str:
    """The text of a UTF-8 file.

    Args:
        path: The file.
        most: Bytes that it may have.

    Returns:
        Its text.

    Raises:
        BadFile: It is larger, or not UTF-8.
        OSError: It cannot be read.

    """
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise BadFile(f"{path}: is larger than {most} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadFile(f"{path}: is not UTF-8 text: {error}") from None


def parse_json(text: str) -> Any:
    """As `json.loads`; what is nested too deep is a `ValueError` too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_json(path: Path) -> Any:
    """What a JSON file holds.

    Args:
        path: The file.

    Returns:
        Its value.

    Raises:
        BadFile: It is too large, or not JSON.
        OSError: It cannot be read.

    """
    try:
        return parse_json(read_text(path))
    except BadFile:
        raise
    except ValueError as error:
        raise BadFile(f"{path}: is not JSON: {error}") from None


def read_json_table(path: Path) -> dict[str, Any]:
    """The table that a JSON file holds; an empty one where the file is gone or broken."""
    try:
        value = read_json(path)
    except (OSError, BadFile):
        return {}
    return value if isinstance(value, dict) else {}


def read_toml(argument: str, path: Path) -> dict[str, Any]:
    """What a TOML file of the user's holds.

    Args:
        argument: What the user calls it.
        path: The file.

    Raises:
        InvalidArgument: It cannot be read, is too large, or is not TOML.

    """
    try:
        return read_own_toml(path)
    except OSError as error:
        raise InvalidArgument(argument, str(path), error.strerror or str(error)) from None
    except BadFile as error:
        raise InvalidArgument(argument, str(path), str(error).partition(": ")[2]) from None


def read_own_toml(path: Path) -> dict[str, Any]:
    """What a TOML file holds that a run has written.

    Raises:
        BadFile: It is too large, or is not TOML.

    """
    try:
        return tomllib.loads(read_text(path))
    except BadFile:
        raise
    except RecursionError:
        raise BadFile(f"{path}: is not TOML: nested too deep") from None
    except ValueError as error:  # of tomllib, or of a number with too many digits
        raise BadFile(f"{path}: is not TOML: {error}") from None
