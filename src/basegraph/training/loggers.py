"""`Logger`: where numbers go besides the run's own folder, as to TensorBoard.

`basegraph.integrations` has adapters for TensorBoard, Weights & Biases and MLflow.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from basegraph.errors import InvalidArgument
from basegraph.training.metrics import Metrics


@runtime_checkable
class Logger(Protocol):
    """Takes numbers by name, step by step.

    Example:
        >>> class Lines:
        ...     def log(self, step, values):
        ...         print(step, *(f"{name}={value:.3g}" for name, value in values.items()))
        ...     def close(self):
        ...         print("closed")
        >>> isinstance(Lines(), Logger)
        True

    """

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of a step; steps never go back."""

    def close(self) -> None:
        """Write what is left: there will be no more."""


class Loggers:
    """Loggers of a run, which goes on without one that fails.

    Args:
        loggers: The loggers.

    Raises:
        InvalidArgument: One of them is no logger.

    """

    def __init__(self, loggers: Sequence[Logger]) -> None:
        for logger in loggers:
            if not isinstance(logger, Logger):
                raise InvalidArgument("loggers", logger, "must have log(step, values) and close()")
        self._loggers = list(loggers)

    def evaluated(self, row: Metrics) -> None:
        """Log what was measured, by its step."""
        values: dict[str, Any] = {k: v for k, v in row.items() if k not in ("epoch", "step")}
        for logger in list(self._loggers):
            self._try(logger, "log", row["step"], values)

    def close(self) -> None:
        """Close all that are left."""
        for logger in list(self._loggers):
            self._try(logger, "close")
        self._loggers.clear()

    def _try(self, logger: Logger, call: str, *arguments: object) -> None:
        try:
            getattr(logger, call)(*arguments)
        except Exception as error:  # any of a network or a server: the run is worth more
            self._loggers.remove(logger)
            name = type(logger).__name__
            warnings.warn(f"{name} failed and is disabled: {error!r}", stacklevel=2)
