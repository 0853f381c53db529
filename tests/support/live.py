"""A lighthouse, and nodes that join and leave, each a fork that writes what happens to it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.forks import Forked
from support.launch import free_port

HEARTBEAT_TIMEOUT = 4.0
"""Seconds without a heartbeat after which a node is dead: a busy machine must not reach it."""
MARGIN = 10
"""Steps from the last one that a node has made to the one after which all end."""


class LiveNode:
    """A node of a job: `tests/scripts/live_node.py` with these settings."""

    def __init__(self, job: LiveJob, number: int, settings: dict[str, Any]) -> None:
        self.out, self.log = job.folder / f"{number}.out", job.folder / f"{number}.log"
        self.out.touch()
        words = ["live_node.py", json.dumps({"goal": str(job.goal), **settings})]
        environment = {
            "TORCHFT_LIGHTHOUSE": job.address,
            "BASEGRAPH_NODE": f"node-{number}",
            "BASEGRAPH_NODES": str(job.expected),
        }
        self.process = Forked("python", words, self.log, self.out, environment)
        self._events: list[dict[str, Any]] = []
        self._read = 0  # bytes of the file

    @property
    def events(self) -> list[dict[str, Any]]:
        with self.out.open("rb") as file:
            file.seek(self._read)
            *lines, _ = file.read().split(b"\n")  # the last may be cut off
        self._read += sum(len(line) + 1 for line in lines)
        self._events += [json.loads(line) for line in lines if line.startswith(b"{")]
        return self._events

    def seen(self, kind: str, **facts: Any) -> list[dict[str, Any]]:
        """The events of this kind that have these values."""
        return [
            event
            for event in self.events
            if event["event"] == kind and all(event.get(k) == v for k, v in facts.items())
        ]

    @property
    def step(self) -> int:
        return max((event["step"] for event in self.events[-3:]), default=0)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")


class LiveJob:
    """A job in a folder.

    Args:
        folder: For what the nodes say.
        expected: How many nodes the first ones wait for.
        first: Settings of the first node alone, which hands over its model to those that come.
        **settings: Of every node, see `live_node.py`.

    """

    def __init__(
        self, folder: Path, expected: int, first: dict[str, Any] | None = None, **settings: Any
    ) -> None:
        self.first = first or {}
        self.folder = folder
        self.expected = expected
        self.settings = settings
        self.goal = folder / "goal"
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.nodes: list[LiveNode] = []
        self.lighthouse: Forked | None = None

    def __enter__(self) -> LiveJob:
        self.start_lighthouse()
        for number in range(self.expected):
            self.add(**self.first if number == 0 else {})
        return self

    def __exit__(self, *exception: object) -> None:
        for node in self.nodes:
            node.process.kill()
            node.process.wait()
        self.kill_lighthouse()

    def start_lighthouse(self) -> None:
        log = self.folder / "lighthouse.log"
        words = ["lighthouse.py", str(self.port), str(HEARTBEAT_TIMEOUT)]
        out = self.folder / f"lighthouse-{time.monotonic_ns()}.out"
        out.touch()
        self.lighthouse = Forked("python", words, log, out)
        self.until(lambda: "listens" in out.read_text(), "the lighthouse")

    def kill_lighthouse(self) -> None:
        if self.lighthouse is not None:
            self.lighthouse.kill()
            self.lighthouse.wait()
        self.lighthouse = None

    def add(self, **settings: Any) -> LiveNode:
        """Start one more node."""
        self.nodes.append(LiveNode(self, len(self.nodes), {**self.settings, **settings}))
        return self.nodes[-1]

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        """Wait for it, however long that takes; not if a node has failed."""
        while True:
            outcome = happened()
            if outcome:
                return outcome
            for node in self.nodes:
                code = node.process.poll()
                assert code in (None, 0, -signal.SIGKILL), f"{what}: {code}: {node.said()[-3000:]}"
            time.sleep(0.05)

    def wait_for_members(self, *nodes: LiveNode) -> None:
        """Wait until these are the nodes, as each of them has been told, and have made a step."""
        count = len(nodes)

        def settled() -> bool:
            last = [(n.seen("change") or [{"members": []}])[-1] for n in nodes]
            steps = [n.seen("step")[-1:] for n in nodes]
            if not all(steps) or not all(len(change["members"]) == count for change in last):
                return False
            return len({e["epoch"] for e in [*last, *(step for (step,) in steps)]}) == 1

        self.until(settled, f"{count} nodes")

    def finish(self, *nodes: LiveNode) -> list[dict[str, Any]]:
        """Let these nodes end together; what each has at the end."""
        for node in nodes:  # so that none passes the step before it is told
            node.signal(signal.SIGSTOP)
        self.goal.write_text(str(max(node.step for node in nodes) + MARGIN))
        for node in nodes:
            node.signal(signal.SIGCONT)
        for node in nodes:
            code = node.process.wait()
            assert code == 0, node.said()[-3000:]
            assert "Traceback" not in node.said(), node.said()[-3000:]
        return [node.seen("end")[-1] for node in nodes]
