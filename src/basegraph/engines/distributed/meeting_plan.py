"""When nodes that join and leave meet next: after the same step at all of them."""

from __future__ import annotations

from basegraph.topologies.two_states.sequence import AnyTopology

MEETING_SECONDS = 0.25
"""Seconds between two meetings, if a period is shorter than that."""
MOST_PERIODS = 1000
LONG = 64
"""Rounds after which nodes meet if a period is longer, or the topology is random."""


class MeetingPlan:
    """After which step the nodes meet: at the end of a period, or of several short ones.

    Args:
        local_steps: Steps per exchange.

    Example:
        >>> import basegraph as bg
        >>> plan = MeetingPlan()
        >>> plan.after(100, bg.topology("base:k=1", n=8), seconds=1.0)
        >>> [step for step in range(100, 110) if plan.due(step)][0]
        103

    """

    def __init__(self, local_steps: int = 1) -> None:
        self.local_steps = local_steps
        self._interval = 1
        self._next: int | None = None

    def after(self, step: int, topology: AnyTopology, seconds: float | None) -> None:
        """Plan the meeting after the one of this step.

        Args:
            step: Steps made, by all nodes.
            topology: Whose periods count.
            seconds: What a step takes; 0 if that is not known, None leaves the interval as it is.

        """
        rounds = max(1, min(topology.period or LONG, LONG))
        period = rounds * self.local_steps
        if seconds is not None:
            periods = MEETING_SECONDS / (seconds * period) if seconds > 0 else 1.0
            self._interval = period * int(min(MOST_PERIODS, max(1.0, periods)))
        self._next = step + self._interval

    def due(self, step: int) -> bool:
        """Whether the nodes meet when so many steps are made."""
        return self._next is not None and step >= self._next
