"""Result files: an output folder found usable before the work, tables, and where they came from."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from basegraph.errors import InvalidArgument
from basegraph.storage._provenance import commit, provenance
from basegraph.storage.files import replacing, writable
from basegraph.storage.inputs import read_json_table

HOLDS_RUNS = "holds a sweep already: resume it, or choose another folder"
"""Why a folder with runs is refused: these are resumed, and nothing overwrites them."""


class ResultFolder:
    """A folder for the files of one experiment; made, and refused if unusable, before the work.

    Args:
        path: The folder.
        names: Files that will be written.
        force: Whether these may exist.
        writes: Whether anything is written. What only reads needs neither the folder nor its lock.

    Raises:
        InvalidArgument: If the folder or a file cannot be written.

    """

    def __init__(self, path: Path, names: list[str], *, force: bool, writes: bool = True) -> None:
        self.path = path
        self.writes = writes
        self._written: set[str] = set()
        self._commit = commit()  # before the files change the tree, if they are part of it
        if not writes:
            _require_folder(path)
            return
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

    def remove_older(self) -> None:
        """Remove the files that the call before this one wrote here, and this one did not."""
        before = read_json_table(self.path / "provenance.json").get("files", [])
        for name in before if isinstance(before, list) else []:
            if isinstance(name, str) and Path(name).name == name and name not in self._written:
                (self.path / name).unlink(missing_ok=True)

    def provenance(self, data: str, **more: object) -> None:
        """Write down the command, the code, the machine and the data the files came from."""
        origin = {**provenance(data), "commit": self._commit, **more}
        origin["files"] = sorted(self._written)
        self.text("provenance.json", json.dumps(origin, indent=2) + "\n")


def _require_folder(path: Path) -> None:
    """Refuse a path that is no folder and cannot become one."""
    first = next(part for part in (path, *path.absolute().parents) if part.exists())
    if not first.is_dir():
        raise InvalidArgument("out", str(path), f"cannot be made: {first} is a file")


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows, which all have the keys of the first, as CSV."""
    with replacing(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
