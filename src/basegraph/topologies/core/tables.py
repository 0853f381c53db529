"""Tables of searched parameters, kept as JSON beside the code that reads them.

A table is one JSON object with two members:

- `format`: what the table is for (`about`), what every field holds (`fields`), and the command
  that made it (`command`);
- `entries`: number of nodes -> its fields, one line per entry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from basegraph.storage.files import replacing


class TableFormat(NamedTuple):
    """What a table says about itself."""

    about: str
    fields: dict[str, str]
    """Field -> what it holds."""
    command: str
    """What made the table."""


def load_table(package: str, name: str) -> dict[int, dict[str, Any]]:
    """Read a table that is installed with a package.

    Args:
        package: The package that the file belongs to.
        name: The file's name.

    Returns:
        Number of nodes -> field -> value; lists become tuples.

    Example:
        >>> load_table("basegraph.topologies.short", "laid_mixes.json")[46]["turn"]
        1

    """
    return _parsed(resources.files(package).joinpath(name).read_text(encoding="utf-8"))


def read_table(path: Path) -> dict[int, dict[str, Any]]:
    """Read a table from a file, as `load_table`; an absent file is an empty table."""
    return _parsed(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_table(
    path: Path, described: TableFormat, entries: Mapping[int, Mapping[str, Any]]
) -> None:
    """Write a table, replacing the file in one step.

    Args:
        path: The file.
        described: What the table says about itself.
        entries: Number of nodes -> field -> value.

    """
    head = json.dumps(described._asdict(), indent=2, ensure_ascii=False).replace("\n", "\n  ")
    lines = [f'    "{n}": {json.dumps(entries[n])}' for n in sorted(entries)]
    body = ",\n".join(lines)
    with replacing(path) as partial:
        partial.write_text(
            f'{{\n  "format": {head},\n  "entries": {{\n{body}\n  }}\n}}\n', encoding="utf-8"
        )


def _parsed(text: str) -> dict[int, dict[str, Any]]:
    entries = json.loads(text)["entries"]
    return {
        int(n): {field: _as_tuple(value) for field, value in entry.items()}
        for n, entry in entries.items()
    }


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value
