"""`--log`: trackers of a run, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from basegraph.errors import unknown
from basegraph.extras import require
from basegraph.integrations.trackers import TRACKERS
from basegraph.training.loggers import Loggers

if TYPE_CHECKING:
    from basegraph.training.metrics import Metrics


class Trackers:
    """What --log names, opened when the run has its folder.

    Args:
        names: With commas between them.

    Raises:
        InvalidArgument: There is no such tracker.
        MissingExtra: Its package is not installed.

    """

    def __init__(self, names: str) -> None:
        self.names = list(dict.fromkeys(filter(None, map(str.strip, names.split(",")))))
        for name in self.names:
            if name not in TRACKERS:
                raise unknown("--log", name, TRACKERS)
            require(name)
        self._loggers: Loggers | None = None

    def started(self, run: Path, settings: Mapping[str, object]) -> None:
        """Open them, unless the run has only started again."""
        if self._loggers is None:
            self._loggers = Loggers([TRACKERS[name](run, settings) for name in self.names])

    def evaluated(self, row: Metrics) -> None:
        """Log what was measured."""
        if self._loggers is not None:
            self._loggers.evaluated(row)

    def close(self) -> None:
        """Close them, if they are open."""
        if self._loggers is not None:
            self._loggers.close()
