"""Requests to stop: a node completes its step, saves, and exits in time.

- `StopRequest` (`request.py`): whether this node is to stop, checked before every step.
- `Deadline` (`deadline.py`): ends every wait for other nodes some seconds after the first signal;
  `logged_signals_with_deadline` is for loops that stop by themselves.
- `let_groups_go` (`exit.py`): lets torch end its threads, so that the process exits cleanly.

>>> from basegraph.engines.distributed.shutdown import StopRequest
>>> StopRequest().reason is None
True
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.engines.distributed.shutdown.deadline import (
        Deadline,
        logged_signals_with_deadline,
    )
    from basegraph.engines.distributed.shutdown.exit import let_groups_go
    from basegraph.engines.distributed.shutdown.request import StopRequest
else:
    _HOMES = {
        "Deadline": "basegraph.engines.distributed.shutdown.deadline",
        "StopRequest": "basegraph.engines.distributed.shutdown.request",
        "let_groups_go": "basegraph.engines.distributed.shutdown.exit",
        "logged_signals_with_deadline": "basegraph.engines.distributed.shutdown.deadline",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = ["Deadline", "StopRequest", "let_groups_go", "logged_signals_with_deadline"]
