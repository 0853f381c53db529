"""Starts a lighthouse and the nodes of a job on this machine, and replaces nodes that die."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from basegraph.engines.distributed.membership.lighthouse import torchft_coordination
from basegraph.engines.distributed.membership.progress import seconds
from basegraph.launched import EXPECTED, JOB, LIGHTHOUSE, NAME
from basegraph.topologies.core.integers import at_least

HEARTBEAT_TIMEOUT = 5.0
"""Seconds without a heartbeat after which a node is dead, by default."""
JOIN_TIMEOUT = 300.0
"""Seconds for which nodes wait in a meeting for one that is alive and does not come."""
QUICK = 10.0
"""A node that fails so soon after its start, in seconds, is not replaced: it would fail again."""
GRACE = 3.0
"""Seconds after a node has failed in which the others fail too, if the job is at fault."""
FORWARDED = (signal.SIGINT, signal.SIGTERM)
PAUSE = 0.1


@dataclass
class _Slot:
    """One of the nodes, and those that have replaced it."""

    number: int
    process: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    """When its process was seen to have ended."""
    code: int | None = None
    """The exit code of the last process, when it is not replaced."""

    @property
    def runs(self) -> bool:
        """Whether its process runs."""
        return self.process.poll() is None


class Launcher:
    """The nodes of a job on this machine.

    Args:
        command: What every node runs, after the Python interpreter: a script with its arguments.
        nodes: How many.
        replace: Whether a node that dies is replaced by a new one.
        heartbeat_timeout: Seconds without a heartbeat after which a node is dead.
        say: Called with a line for the user.

    Raises:
        MissingExtra: torchft is not installed.
        InvalidArgument: A number is wrong.

    """

    def __init__(
        self,
        command: Sequence[str],
        nodes: int,
        *,
        replace: bool = True,
        heartbeat_timeout: float = HEARTBEAT_TIMEOUT,
        say: Callable[[str], object] = print,
    ) -> None:
        at_least(1, nodes=nodes)
        seconds(heartbeat_timeout, "heartbeat_timeout")
        self._coordination = torchft_coordination()
        self._command = [sys.executable, *command]
        self._nodes = nodes
        self._replace = replace
        self._heartbeat_timeout = heartbeat_timeout
        self._say = say
        self._slots: list[_Slot] = []
        self._stopped_by = 0

    def run(self) -> int:
        """Start everything, and wait until all nodes have ended.

        SIGINT and SIGTERM are forwarded to the nodes.

        Returns:
            0 if all nodes ended well, or their replacements did; 128 plus the signal that has
            stopped the job; the exit code of a node that has failed otherwise.

        """
        lighthouse = self._coordination.LighthouseServer(
            bind="127.0.0.1:0",
            min_replicas=1,
            join_timeout_ms=round(1000 * JOIN_TIMEOUT),
            quorum_tick_ms=50,
            heartbeat_timeout_ms=round(1000 * self._heartbeat_timeout),
        )
        port = lighthouse.address().rpartition(":")[2]
        environment = {
            LIGHTHOUSE: f"http://127.0.0.1:{port}",
            EXPECTED: str(self._nodes),
            JOB: secrets.token_hex(4),
        }
        self._say(f"lighthouse at {environment[LIGHTHOUSE]}, {self._nodes} nodes")
        handlers = {number: signal.signal(number, self._forward) for number in FORWARDED}
        try:
            for number in range(self._nodes):
                self._slots.append(_Slot(number, self._start(number, environment)))
            environment[EXPECTED] = "0"
            while any(slot.code is None for slot in self._slots):
                for slot in self._slots:
                    if slot.code is None:
                        self._look_after(slot, environment)
                time.sleep(PAUSE)
        finally:
            for slot in self._slots:
                if slot.process.poll() is None:
                    slot.process.kill()
                    slot.process.wait()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            lighthouse.shutdown()
        if self._stopped_by:
            return 128 + self._stopped_by
        codes = [slot.code for slot in self._slots if slot.code]
        return 0 if not codes else codes[0] if codes[0] > 0 else 128 - codes[0]

    def _start(self, number: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        own = {**os.environ, **environment, NAME: f"node-{number}"}
        process = subprocess.Popen(self._command, env=own)
        self._say(f"node-{number} is process {process.pid}")
        return process

    def _look_after(self, slot: _Slot, environment: Mapping[str, str]) -> None:
        """Replace a node that has died, or note its end.

        One that has failed by itself is not replaced if all others do the same: a new one would
        fail again, as where the training has diverged.
        """
        code = slot.process.poll()
        if code is None:
            return
        slot.ended = slot.ended or time.monotonic()
        if code > 0 and self._others_run(slot) and time.monotonic() - slot.ended < GRACE:
            return
        name = f"node-{slot.number} (process {slot.process.pid})"
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with {code}"
        quick = code > 0 and time.monotonic() - slot.started < QUICK
        over = self._stopped_by or any(other.code == 0 for other in self._slots)
        alone = code > 0 and not self._others_run(slot)
        if code and self._replace and not quick and not over and not alone:
            self._say(f"{name} {how}: starting a replacement")
            slot.process, slot.started = self._start(slot.number, environment), time.monotonic()
            slot.ended = None
            return
        if code and not self._stopped_by:
            self._say(f"{name} {how}")
        slot.code = code

    def _others_run(self, slot: _Slot) -> bool:
        return any(other.runs for other in self._slots if other is not slot)

    def _forward(self, number: int, frame: FrameType | None) -> Any:
        self._stopped_by = self._stopped_by or number
        for slot in self._slots:
            if slot.process.poll() is None:
                slot.process.send_signal(number)
