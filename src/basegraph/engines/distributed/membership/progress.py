"""How far every node has got, so that one that is lost can be named.

Every node keeps a key in the process group's store: how many collectives it has entered, and what
the last one was for. Writing it takes microseconds and waits for no node. A node whose wait
times out adds that it gives up, and for whom it has waited. Whoever gives up reads all keys: of
nodes that wait for each other, the lost one is the one that has not given up itself.
"""

from __future__ import annotations

import atexit
import json
import math
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from basegraph.engines.distributed.bounded import within
from basegraph.engines.distributed.membership.torchrun import agent_store, orphaned, start_prefix
from basegraph.errors import InvalidArgument, PeerLost

TIMEOUT = 300.0
"""Seconds after which a node counts as lost, by default."""
GRACE = 3.0
"""Seconds that a node which gives up waits for the others to give up, too."""
PAUSE = 0.05
"""Seconds between two notes of what happens at every step: one costs 40 to 80 µs."""
SETTLE = 0.2
"""Seconds in which the connections of a process that was killed are closed, one by one."""
LONGEST = 10**6
"""Seconds, about eleven days: torch counts milliseconds in 32 bits here and there."""


def seconds(timeout: float, name: str = "timeout") -> float:
    """A timeout that can be waited for; others are refused."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise InvalidArgument(name, timeout, "must be a number of seconds")
    if not 0.001 <= timeout <= LONGEST:
        raise InvalidArgument(name, timeout, f"must be a number of seconds from 0.001 to {LONGEST}")
    return float(timeout)


class Report(NamedTuple):
    """What a node has written about itself."""

    entered: int
    """Collectives that it has entered."""
    phase: str
    """What the last one was for."""
    gave_up: bool = False
    waited_for: int | None = None
    """For whom, if it was not a collective in which it gave up."""
    stopped_by: str = ""
    """What has stopped it, if it has not lost a neighbor."""


Reports = list[Report | None]
"""By node; None of those that have written nothing."""


class Progress:
    """What the nodes of a process group know of each other.

    Args:
        store: Where every node keeps its report.
        node: The number of this node.
        size: How many nodes there are.
        timeout: Seconds after which a node counts as lost.
        host: The node that hosts the store; None if torchrun does.

    """

    def __init__(
        self, store: Any, node: int, size: int, timeout: float, host: int | None = None
    ) -> None:
        self.store = store
        self.node = node
        self.size = size
        self.timeout = timeout
        self.host = host
        self._own = Report(0, "")
        self._store_answers = True
        self._noted = 0.0
        self._lost: tuple[list[int], Reports] | None = None
        self.gave_up_at = math.inf
        """When this node first gave up waiting, by `time.monotonic`."""

    def reached(self, phase: str, *, routine: bool = False) -> None:
        """Report that this node enters a collective; routine ones are reported now and then."""
        self._own = Report(self._own.entered + 1, phase)
        now = time.monotonic()
        if not self._store_answers or (routine and now - self._noted < PAUSE):
            return
        self._noted = now
        if orphaned():  # torchrun's store has ended with it
            return
        try:
            self._write()
        except RuntimeError:  # the collective itself will show whether nodes are lost
            self._store_answers = False

    def laggards(self, peer: int | None = None) -> tuple[list[int], Reports]:
        """Give up waiting, and find out who is lost.

        Args:
            peer: For whom this node has waited; None in a collective.

        Returns:
            The lost nodes, as far as they can be known, and the report of every node.

        """
        if self._lost is None:
            self.gave_up_at = time.monotonic()
            atexit.register(leave)
            self._lost = self._ask_in_time(peer)
        if self._lost is None:  # the store is lost, with its host
            only = self.host if peer is None else peer
            self._lost = [] if only is None else [only], [None] * self.size
        return self._lost

    def stops(self, reason: str) -> None:
        """Report that this node stops for a reason of its own: it is not the lost one."""

        def report() -> None:
            self._own = self._own._replace(gave_up=True, stopped_by=reason)
            self._write()
            self.store.add("given up", 1)

        if self._answers():
            with suppress(RuntimeError, TimeoutError):  # the others see that themselves
                within(GRACE, report)

    def peer_lost(self, peer: int | None, where: str, error: Exception, waited: float) -> PeerLost:
        """The exception for a wait that has failed.

        Args:
            peer: For whom this node has waited; None in a collective.
            where: The call and the step, in words.
            error: What torch has raised.
            waited: Seconds.

        """
        lost, reports = self.laggards(peer)
        who = [self._named(node, reports[node], peer) for node in lost]
        reason = re.sub(r"^\[\S*\] ", "", " ".join(str(error).split())).partition(". ")[0][:160]
        ended = "torchrun has ended, and " if orphaned() else ""
        in_time = f" within {self.timeout:g} s" if waited > 0.99 * self.timeout else ""
        return PeerLost(
            f"node {self.node}: {ended}{' and '.join(who) or 'a node'} did not answer at {where}"
            f"{in_time} (waited {waited:.2f} s): {reason or 'timed out'}",
            lost[0] if lost else None,
        )

    def _named(self, node: int, report: Report | None, peer: int | None) -> str:
        if report is not None and report.stopped_by:
            return f"node {node} (stopped by {report.stopped_by})"
        if peer is not None or report is None:
            return f"node {node}"
        return f"node {node} (last seen at {report.phase})"

    def _write(self) -> None:
        self.store.set(str(self.node), json.dumps(self._own))

    def _answers(self) -> bool:
        """Whether the store's process runs (torch prints a C++ backtrace otherwise)."""
        return self._store_answers and not orphaned() and _reachable(self.store)

    def _ask_in_time(self, peer: int | None) -> tuple[list[int], Reports] | None:
        """Ask the store, unless it does not answer."""
        time.sleep(SETTLE)
        if not self._answers():
            return None
        try:
            return within(4 * GRACE, lambda: self._ask(peer))
        except (RuntimeError, TimeoutError):
            return None

    def _ask(self, peer: int | None) -> tuple[list[int], Reports]:
        self._own = self._own._replace(gave_up=True, waited_for=peer)
        self._write()
        self.store.add("given up", 1)
        grace = min(GRACE, self.timeout)
        self._until(lambda: self.store.add("given up", 0) >= self.size - 1, grace)
        reports = [self._read(node) for node in range(self.size)]
        self.store.add("read", 1)
        if self.node == self.host:  # others read too, some only after those that wait now have left
            self._until(lambda: self.store.add("read", 0) >= self.size - 1, 2 * grace)
        return suspects(reports, self.node, peer), reports

    @staticmethod
    def _until(done: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            time.sleep(0.05)

    def _read(self, node: int) -> Report | None:
        if not self.store.check([str(node)]):
            return None
        return Report(*json.loads(self.store.get(str(node))))


def suspects(reports: Reports, node: int, peer: int | None) -> list[int]:
    """Who is lost, by the reports of all nodes; none, if that cannot be known.

    Node 1 waited for node 0, which waited for node 2, which has not given up:

    >>> gave_up = [Report(4, "step 3", True, 2), Report(4, "step 3", True, 0)]
    >>> suspects([*gave_up, Report(4, "step 3")], node=1, peer=0)
    [2]
    """
    silent = [i for i, report in enumerate(reports) if report is None or not report.gave_up]
    visited = {node}
    waited_for = peer
    while waited_for is not None and waited_for not in silent and waited_for not in visited:
        visited.add(waited_for)
        report = reports[waited_for]
        waited_for = None if report is None else report.waited_for
    if waited_for in silent:
        return [waited_for]
    if not silent:
        return [] if peer is None else [peer]
    entered = [0 if report is None else report.entered for report in reports]
    least = min(entered[i] for i in silent)
    behind = [i for i in silent if entered[i] == least]
    if len(silent) == 1 or least < entered[node]:
        return behind
    return [] if peer is None else [peer]


def listens(host: str, port: int) -> bool:
    """Whether a process accepts connections at this address."""
    try:
        socket.create_connection((host, port), timeout=GRACE).close()
    except OSError:
        return False
    return True


def _reachable(store: Any) -> bool:
    """Whether the store's process runs."""
    while isinstance(store, dist.PrefixStore):  # type: ignore[attr-defined]
        store = store.underlying_store
    return not isinstance(store, dist.TCPStore) or listens(store.host, store.port)  # type: ignore[attr-defined]


# -- of process groups -----------------------------------------------------------------------

_WATCHED: WeakKeyDictionary[Any, Progress] = WeakKeyDictionary()


def watch(group: Any, timeout: float) -> Progress:
    """Report this node's progress from now on, and wait no longer than `timeout`."""
    seconds(timeout)
    group = dist.group.WORLD if group is None else group
    if group not in _WATCHED:
        store = dist.PrefixStore(  # type: ignore[attr-defined]
            f"basegraph {start_prefix()} {group.group_name}", c10d._get_default_store()
        )
        ranks = dist.get_process_group_ranks(group)
        host = None if agent_store() or 0 not in ranks else ranks.index(0)
        _WATCHED[group] = Progress(store, dist.get_rank(group), len(ranks), timeout, host)
        _WATCHED[group].reached("the rendezvous")
    _WATCHED[group].timeout = timeout
    return _WATCHED[group]


def of(group: Any) -> Progress:
    """The progress of the nodes of a group."""
    known = _WATCHED.get(dist.group.WORLD if group is None else group)
    return watch(group, TIMEOUT) if known is None else known


def leave() -> None:
    """Destroy the process group, unless the script has done so."""
    if dist.is_initialized():
        dist.destroy_process_group()
