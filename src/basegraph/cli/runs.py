"""Runs that a command is given: their folders, or folders with runs below them."""

from __future__ import annotations

import sys
from pathlib import Path

from basegraph.errors import InvalidArgument
from basegraph.training.status import RunStatus, name_below, read_status, runs_below


def evaluated(paths: list[Path]) -> list[RunStatus]:
    """The runs at these paths and in the folders below them, each once.

    A run that is named must have been evaluated; others without an evaluation are left out, and
    named on standard error.
    """
    statuses: dict[Path, RunStatus] = {}
    without = []
    for path in paths:
        below = list(runs_below(path))
        if not below:
            raise InvalidArgument("RUNS", str(path), "is not a folder with runs")
        for one in below:
            status = read_status(one, name_below(one, path))
            if status.rows:
                statuses.setdefault(one.resolve(), status)
            elif one == path:
                raise InvalidArgument("RUNS", str(path), "has no evaluation yet")
            else:
                without.append(f"{one} ({said_of_state(status)})" if status.reason else str(one))
    if not statuses:
        raise InvalidArgument("RUNS", without, "have no evaluation yet")
    if without:
        print(f"left out, no evaluation yet: {', '.join(without)}", file=sys.stderr)
    return list(statuses.values())


def said_of_state(status: RunStatus) -> str:
    """Where a run stands that has not finished, in words."""
    where = f"{status.state} at epoch {status.epoch} of {status.config['epochs']}"
    return f"{where}: {status.reason}" if status.reason else where
