"""`basegraph watch`: follow a run, or all runs of a sweep, while they train."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from basegraph.cli.arguments import number
from basegraph.cli.frames import one_run, said_of_change, several_runs
from basegraph.cli.output import as_json
from basegraph.cli.scores import said_of_evaluation
from basegraph.errors import InvalidArgument
from basegraph.storage.inputs import BadFile
from basegraph.storage.lock import holder
from basegraph.training.status import (
    FAILED,
    FINISHED,
    RUNNING,
    RunStatus,
    name_below,
    read_status,
    runs_below,
)


def watch(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="the folder of a run, or of a sweep's runs")
    ],
    once: Annotated[bool, typer.Option("--once", help="show the current state and exit")] = False,
    every: Annotated[str, typer.Option(metavar="S", help="refresh interval in seconds")] = "1",
    patience: Annotated[
        str,
        typer.Option(
            metavar="S",
            help="seconds without a writer after which a run with live membership counts as "
            "stopped",
        ),
    ] = "60",
    json: Annotated[bool, typer.Option("--json", help="print JSON once and exit")] = False,
) -> None:
    """Follow a run while it trains: scores, consensus distance, bytes, members. Ctrl-C quits.

    It only reads, and ends with the run. In a pipe it prints one line per evaluation.

    Example: basegraph watch runs/demo

    Example: basegraph watch runs/sweep --once
    """
    pause, wait = number("--every", every), number("--patience", patience)
    if not 0.01 <= pause <= 3600:
        raise InvalidArgument("--every", every, "must be from 0.01 to 3600 seconds")
    if not 0 <= wait < float("inf"):
        raise InvalidArgument("--patience", patience, "must be a number of seconds ≥ 0")
    try:
        _watch(Watched(run), once=once, json=json, pause=pause, patience=wait)
    except KeyboardInterrupt:  # the usual way to leave
        return


def _watch(watched: Watched, *, once: bool, json: bool, pause: float, patience: float) -> None:
    watched.look()
    if not watched.writes and not any(status.rows for status in watched.runs):
        raise InvalidArgument("RUN", str(watched.path), "has no evaluation yet and is not running")
    console = Console()
    if json:
        found = [_as_dict(status) for status in watched.runs]
        as_json(found[0] if watched.single else found)
    elif once:
        console.print(watched.frame(console.width))
    elif console.is_terminal:
        _show_live(watched, console, pause, patience)
    else:
        _print_lines(watched, pause, patience)


class Watched:
    """A run or a folder of runs, looked at again and again.

    Args:
        path: The folder.

    Raises:
        InvalidArgument: If there is no run in it.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.single = (path / "config.toml").is_file()
        self.runs: list[RunStatus] = []
        self.writes = False
        if not path.is_dir():
            raise InvalidArgument("RUN", str(path), "is not a folder")
        if not self.single and not any(runs_below(path)) and holder(path) is None:
            raise InvalidArgument("RUN", str(path), "is not the folder of a run or a sweep")

    def look(self) -> None:
        """Read where all runs stand; those that have ended are not read again."""
        folder_in_use = holder(self.path) is not None  # asked first, as a run's is
        known = {status.path: status for status in self.runs if status.state in (FINISHED, FAILED)}
        try:
            self.runs = [
                known.get(path) or read_status(path, self._name(path))
                for path in runs_below(self.path)
            ]
        except FileNotFoundError as error:
            raise BadFile(f"{error.filename}: was removed") from None
        going_on = any(status.state == RUNNING for status in self.runs)
        self.writes = going_on or (folder_in_use and not self.single)

    @property
    def elastic(self) -> bool:
        """Whether another process may continue a run that none writes just now."""
        return any(s.elastic for s in self.runs if s.state not in (FINISHED, FAILED))

    def frame(self, width: int, height: int | None = None) -> RenderableType:
        """What is shown on a terminal of this size; without a height, everything."""
        if self.single:
            return one_run(self.runs[0], width)
        return several_runs(self.runs, width, None if height is None else max(1, height - 4))

    def _name(self, path: Path) -> str:
        return str(path) if self.single else name_below(path, self.path).partition("/")[2]


def _show_live(watched: Watched, console: Console, pause: float, patience: float) -> None:
    """Frames in place of each other, until none writes any more; the last one stays."""
    with Live(
        watched.frame(console.width, console.height), console=console, auto_refresh=False
    ) as live:
        for _ in _looks(watched, pause, patience):
            live.update(watched.frame(console.width, console.height), refresh=True)
        live.update(watched.frame(console.width), refresh=True)


def _print_lines(watched: Watched, pause: float, patience: float) -> None:
    """A line for every evaluation and every change of the nodes, as they come."""
    evaluated: dict[Path, int] = {}
    changed: dict[Path, int] = {}
    for _ in _looks(watched, pause, patience):
        for status in watched.runs:
            before = "" if watched.single else f"{status.name}: "
            rows = [r for r in status.rows if r["epoch"] > evaluated.get(status.path, 0)]
            changes = status.changes[changed.get(status.path, 0) :]
            for change in changes:
                print(f"{before}{said_of_change(change)}")
            for row in rows:
                print(f"{before}{said_of_evaluation(row)}")
            evaluated[status.path] = status.epoch
            changed[status.path] = len(status.changes)
        sys.stdout.flush()
    for status in watched.runs:
        where = f"epoch {status.epoch} of {status.config['epochs']}"
        print(f"{status.name}: {status.state} at {where}{status.reason and ': '}{status.reason}")


def _looks(watched: Watched, pause: float, patience: float) -> Iterator[None]:
    """After every look at the runs, until they have ended or are given up."""
    alone_since: float | None = None
    while True:
        yield
        if not watched.writes:
            alone_since = alone_since or time.monotonic()
            waits = watched.elastic and time.monotonic() - alone_since < patience
            if not waits:
                return
        else:
            alone_since = None
        time.sleep(pause)
        watched.look()


def _as_dict(status: RunStatus) -> dict[str, Any]:
    last: Sequence[Any] = status.rows[-1:]
    return {
        "run": status.name,
        "state": status.state,
        **({"reason": status.reason} if status.reason else {}),
        "epoch": status.epoch,
        "epochs": status.config["epochs"],
        "nodes": status.nodes,
        "members": status.members,
        "changes": len(status.changes),
        "last": last[0] if last else None,
    }
