"""Options of a method that are stable on the topology there is now."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from basegraph.algorithms._stability import Unstable, largest_stable_damping, require_stable
from basegraph.optim.family import Family
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence

LOG = logging.getLogger("basegraph")


@dataclass(frozen=True)
class StableOptions:
    """What has to be decided again whenever the topology is another one."""

    family: Family
    automatic_damping: bool
    """Whether τ is the largest that is stable."""
    allow_unstable: bool
    local_steps: int

    def of(self, t: AnyTopology) -> dict[str, float]:
        """The options that depend on the topology, by the user's wish."""
        if not self.automatic_damping:
            return {}
        assert not isinstance(t, TwoStateSequence)  # which methods with damping do not go with
        return {"damping": largest_stable_damping(t, self.local_steps)}

    def require(self, groups: Iterable[Mapping[str, Any]], t: AnyTopology) -> None:
        """Refuse parameter groups with which the method is unstable.

        Raises:
            Unstable: Unless that is allowed.

        """
        for method in {} if self.allow_unstable else dict.fromkeys(map(self.family.method, groups)):
            require_stable(method, t, self.local_steps)

    def warn(self, groups: Iterable[Mapping[str, Any]], t: AnyTopology) -> None:
        """Warn instead, where other nodes must not stop for it."""
        try:
            self.require(groups, t)
        except Unstable as error:
            LOG.warning("%s", error)
