"""Result files: an output folder found usable before the work, tables, and where they came from."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from basegraph.errors import InvalidArgument
from basegraph.storage._provenance import provenance
from basegraph.storage.files import replacing, writable


class ResultFolder:
    """A folder for the files of one experiment; made, and refused if unusable, before the work."""

    def __init__(self, path: Path, names: list[str], *, force: bool) -> None:
        self.path = path
        self._written: set[str] = set()
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidArgument("out", str(path), f"cannot be made: {reason}") from None
        for name in [*names, "provenance.json"]:
            writable("out", path / name, force=force)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def table(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Write rows as CSV."""
        write_csv(self.path / name, rows)
        self._written.add(name)

    def text(self, name: str, text: str) -> None:
        """Write text."""
        with replacing(self.path / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
        self._written.add(name)

    def picture(self, name: str) -> Path:
        """Where to write a picture."""
        self._written.add(name)
        return self.path / name

    def remove_older(self, *patterns: str) -> None:
        """Remove files of these names that an earlier call wrote, and this one did not."""
        for pattern in patterns:
            for path in self.path.glob(pattern):
                if path.name not in self._written:
                    path.unlink()

    def provenance(self, data: str, **more: object) -> None:
        """Write down the command, the code, the machine and the data the files came from."""
        self.text("provenance.json", json.dumps({**provenance(data), **more}, indent=2) + "\n")


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows, which all have the keys of the first, as CSV."""
    with replacing(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
