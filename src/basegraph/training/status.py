"""`RunStatus`: what the folder of a run says, read while it may be written, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from basegraph.storage.inputs import parse_json, read_json_table, read_text
from basegraph.storage.lock import holder
from basegraph.training.config import DEFAULTS
from basegraph.training.config_files import read_saved
from basegraph.training.metrics import MAX_METRICS_BYTES, Metrics, read_rows

RUNNING, FINISHED, STOPPED, FAILED = "running", "finished", "stopped", "failed"
"""The states of a run: stopped is one that no process goes on with, before its end."""


@dataclass(frozen=True)
class RunStatus:
    """Where a run stands, as far as its folder says."""

    path: Path
    name: str
    """What to call it."""
    config: dict[str, Any]
    rows: list[Metrics]
    """One per evaluation so far."""
    changes: list[dict[str, Any]]
    """Of the nodes, as in restarts.jsonl."""
    origin: dict[str, Any]
    """What provenance.json holds."""
    state: str
    """One of running, finished, stopped, failed."""
    reason: str = ""
    """Why it has failed."""

    @property
    def epoch(self) -> int:
        """The last epoch that was evaluated, or 0."""
        return self.rows[-1]["epoch"] if self.rows else 0

    @property
    def members(self) -> list[str]:
        """The names of the nodes, where they have changed."""
        named = self.changes[-1].get("members") if self.changes else None
        return [str(name) for name in named] if isinstance(named, list) else []

    @property
    def nodes(self) -> int:
        """How many nodes there are now."""
        return len(self.members) or int(self.config["nodes"])

    @property
    def elastic(self) -> bool:
        """Whether another process may go on with it: nodes join and leave, or are restarted."""
        return bool(self.origin.get("job"))


def read_status(folder: Path, name: str = "") -> RunStatus:
    """Read where a run stands.

    Args:
        folder: The folder of a run.
        name: What to call it; the folder's name if left out.

    Raises:
        BadFile: If a file of it is broken.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "config.toml").write_text("nodes = 5")
        ...     status = read_status(Path(folder))
        >>> status.state, status.epoch, status.nodes
        ('stopped', 0, 5)

    """
    writer = holder(folder)  # asked first: what it writes before it leaves is read below
    config = {**DEFAULTS, **read_saved(folder / "config.toml")}
    rows = read_rows(folder / "metrics.jsonl")
    note = folder.resolve().parent / "failures" / f"{folder.resolve().name}.txt"
    state, reason = STOPPED, ""
    if rows and rows[-1]["epoch"] >= int(config["epochs"]):
        state = FINISHED
    elif writer is not None:
        state = RUNNING
    elif note.is_file():
        state, reason = FAILED, read_text(note).strip()
    return RunStatus(
        folder,
        name or folder.resolve().name,
        config,
        rows,
        _changes(folder / "restarts.jsonl"),
        read_json_table(folder / "provenance.json"),
        state,
        reason,
    )


def runs_below(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """The folder itself if it is a run's, else those of the runs below it, by name."""
    place = folder.resolve()
    if (folder / "config.toml").is_file():
        yield folder
    elif folder.is_dir() and place not in above:  # a link may lead back up
        for child in sorted(folder.iterdir()):
            if not child.name.startswith("."):
                yield from runs_below(child, above | {place})


def name_below(run: Path, given: Path) -> str:
    """What to call a run: its folder, with those above it up to the one that was given."""
    return run.resolve().name if run == given else str(run.relative_to(given.parent))


def _changes(path: Path) -> list[dict[str, Any]]:
    """The lines of a restarts.jsonl that are whole."""
    changes = []
    for line in read_text(path, MAX_METRICS_BYTES).splitlines() if path.is_file() else []:
        try:
            change = parse_json(line)
        except ValueError:
            continue  # cut off by a kill, or being written
        if isinstance(change, dict):
            changes.append(change)
    return changes
