"""A node's entry at the lighthouse: its name, what it says of itself, and what it is told."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

from basegraph.engines.distributed.membership.gloo import own_store, store_address
from basegraph.engines.distributed.membership.lighthouse import Lighthouse, LighthouseGone, Quorum
from basegraph.engines.distributed.membership.meeting import description
from basegraph.launched import NAME, expected

LOG = logging.getLogger("basegraph")
START = 60.0
"""Seconds for which the first nodes wait for the others."""


class Standing(NamedTuple):
    """How far a node is, and with whom."""

    step: int
    """Steps made."""
    seconds: float
    """What a step takes here."""
    epoch: int
    """The last epoch that this node has met for."""
    members: list[str]
    """Those with whom it last took part."""
    broken: bool
    """Whether its connections to them are."""


class Registration:
    """A node at the lighthouse.

    Args:
        address: Of the lighthouse.
        host: The address at which this node listens.

    Raises:
        InvalidArgument: Nobody answers at the address.

    """

    def __init__(self, address: str, host: str) -> None:
        self.name = f"{os.environ.get(NAME) or socket.gethostname()}-{os.getpid()}"
        self.name += f"-{secrets.token_hex(2)}"  # numbers of processes come again
        self._store = own_store(host)
        self.lighthouse = Lighthouse(address, self.name)
        self._began = time.monotonic()
        self._facts: Mapping[str, object] = {}
        self.frozen = False
        """Whether the lighthouse is gone, so that no node can join."""

    def introduce(self, facts: Mapping[str, object]) -> None:
        """Say what must be the same on all nodes, by name, before the first meeting."""
        from basegraph import __version__

        self._facts = {**facts, "basegraph": __version__, "torch": torch.__version__}

    def own_value(self, what: str) -> str:
        """What this node has said under a name, for a message; empty if nothing."""
        return f"; here it is {str(self._facts[what])[:80]}" if what in self._facts else ""

    def ask(
        self, standing: Standing, limit: float, interrupted: Callable[[], bool]
    ) -> Quorum | None:
        """Ask who is alive, and wait until all of those ask; see `Lighthouse.ask`."""
        data = description(
            epoch=standing.epoch,
            members=standing.members,
            facts={name: _digest(value) for name, value in self._facts.items()},
            broken=standing.broken,
            fresh=self.lighthouse.fresh,
            starting=standing.epoch == 0 and time.monotonic() < self._began + START,
            expected=expected(),
            seconds=standing.seconds,
        )
        address = store_address(self._store)
        quorum = self.lighthouse.ask(address, standing.step, data, max(limit, 0.001), interrupted)
        if quorum is not None and self.frozen:
            self.frozen = False
            LOG.warning("%s: the lighthouse is back", self.name)
        return quorum

    def freeze(self, error: LighthouseGone, n: int) -> None:
        """Report once that the n nodes stay as they are until the lighthouse is back."""
        if not self.frozen:
            LOG.warning(
                "%s: %s: the %d nodes continue, but no node can join until it is back",
                *(self.name, error, n),
            )
        self.frozen = True


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
