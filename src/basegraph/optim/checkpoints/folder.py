"""A folder of checkpoints: complete ones under their own names, one at most being written.

A checkpoint is a folder, `000007-step-1200`, with the tensors of all nodes in safetensors and
everything else in `checkpoint.json`. It is written under another name and renamed when it is
complete and on disk, so that whatever is killed meanwhile, the checkpoint before is there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from basegraph.engines.checkpoint import (
    FORMAT,
    TABLE,
    TEXT,
    CheckpointError,
    Field,
    Schema,
    checked,
    integer,
)
from basegraph.errors import InvalidArgument
from basegraph.storage.files import TEMPORARY, sync_folder, writing
from basegraph.storage.inputs import BadFile, read_json

FACTS_FILE = "checkpoint.json"
NAME = re.compile(r"(\d{6,})-step-(\d+)")
UNFINISHED = re.compile(rf"{re.escape(TEMPORARY)}\d{{6,}}")
"""The name of a checkpoint that is being written, or was when its job was killed."""


class Facts(NamedTuple):
    """What a checkpoint holds besides tensors."""

    step: int
    """Steps made so far."""
    nodes: int
    """How many nodes have saved it."""
    kind: str
    """The optimizer, as in "Gossip(AdamW)"."""
    options: list[str]
    """The options of the parameter groups, packed; nodes with equal ones share them."""
    options_of: list[int]
    """Which of them every node has."""
    files: dict[str, int]
    """The bytes of every file with tensors."""
    extra: dict[str, Any]
    """What the user has added."""


SCHEMA: Schema = {
    "step": integer(0),
    "nodes": integer(1),
    "kind": TEXT,
    "options": Field("a list of texts", lambda v: _are(v, str)),
    "options_of": Field("a list of integers", lambda v: _are(v, int) and min(v, default=-1) >= 0),
    "files": TABLE,
    "extra": Field("a table", lambda value: isinstance(value, dict)),
}


def _are(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def require_folder(folder: str | Path) -> Path:
    """A folder for checkpoints, made if need be."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidArgument("folder", str(folder), f"cannot be made: {reason}") from None
    return path


def complete(folder: Path) -> dict[int, Path]:
    """The complete checkpoints of a folder by number, oldest first."""
    found = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        name = NAME.fullmatch(path.name)
        if name and (path / FACTS_FILE).is_file():
            found[int(name.group(1))] = path
    return dict(sorted(found.items()))


def chosen(folder: Path) -> dict[int, Path]:
    """As `complete`, of the folder of checkpoints, or of a checkpoint itself.

    Raises:
        InvalidArgument: It is a file.

    """
    if folder.is_file():
        raise InvalidArgument("folder", str(folder), "is a file; must be a folder of checkpoints")
    if NAME.fullmatch(folder.name) and (folder / FACTS_FILE).is_file():
        return {number: path for number, path in complete(folder.parent).items() if path == folder}
    return complete(folder)


def unfinished(folder: Path, number: int) -> Path:
    """Where the checkpoint with this number is written."""
    return folder / f"{TEMPORARY}{number:06d}"


def path_of(folder: Path, number: int, step: int) -> Path:
    """Where the checkpoint with this number is, once it is complete."""
    return folder / f"{number:06d}-step-{step}"


def remove_unfinished(folder: Path) -> None:
    """Remove what was being written when a job was killed."""
    for path in folder.iterdir():
        if UNFINISHED.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def finish(folder: Path, number: int, facts: Facts, keep: int) -> Path:
    """Give a checkpoint whose tensors are all on disk its facts and its name; remove older ones.

    Args:
        folder: That of the checkpoints.
        number: Which of them.
        facts: What it holds besides tensors; its files are filled in here.
        keep: How many complete checkpoints stay.

    Returns:
        Where it is.

    """
    written = unfinished(folder, number)
    with writing(written):
        files = {path.name: path.stat().st_size for path in sorted(written.iterdir())}
        text = json.dumps({"format": FORMAT, **facts._replace(files=files)._asdict()}) + "\n"
        with open(written / FACTS_FILE, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(written)
        path = path_of(folder, number, facts.step)
        written.rename(path)
        sync_folder(folder)
    for old in list(complete(folder).values())[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def read_facts(path: Path) -> Facts:
    """What a complete checkpoint holds besides tensors.

    Raises:
        CheckpointError: It cannot be read, is not one, or a file of it is missing or cut short.

    """
    try:
        content = read_json(path / FACTS_FILE)
    except (OSError, BadFile) as error:
        raise CheckpointError(f"{path}: {error}") from None
    facts = Facts(**checked(path / FACTS_FILE, content, SCHEMA))
    if len(facts.options_of) != facts.nodes or max(facts.options_of) >= len(facts.options):
        raise CheckpointError(f"{path / FACTS_FILE}: has options for {len(facts.options_of)} nodes")
    for name, size in facts.files.items():
        file = path / Path(name).name
        if not file.is_file() or file.stat().st_size != size:
            raise CheckpointError(f"{file}: is missing or cut short; it had {size} bytes")
    return facts
