"""torchft's lighthouse, the register of who is alive, as one node sees it.

A node sends heartbeats from a thread of its own. `ask` waits until the lighthouse has found a
quorum: all nodes that are alive and ask, too. Nothing of torchft is written again here: who counts
as dead, and after how many seconds, is the lighthouse's decision.
"""

from __future__ import annotations

import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from basegraph.engines.distributed.membership.meeting import Participant
from basegraph.errors import InvalidArgument, RuntimeFailure
from basegraph.extras import require
from basegraph.launched import LIGHTHOUSE as VARIABLE

HEARTBEAT = 0.1
"""Seconds between two heartbeats."""
SETTLE = 3.0
"""Seconds in which nodes register again with a lighthouse that was restarted."""
CONNECT = 5.0
"""Seconds for a connection, and for an answer to a heartbeat."""
LEAVE = 1.0
"""Seconds for an answer that is not needed any more, when a node leaves."""
PAUSE = 0.05
"""Seconds between two looks at whether an answer has come."""

SEEN = re.compile(r'<li class="heartbeat([^"]*)">\s*(.*?): seen [0-9.e-]+s ago', re.DOTALL)
"""A heartbeat on the lighthouse's status page."""


class LighthouseGone(RuntimeFailure):
    """The lighthouse does not answer."""


class Quorum(NamedTuple):
    """The nodes that are alive and have asked, in the order of their names."""

    key: str
    """Different for every quorum."""
    participants: list[Participant]
    created: tuple[int, int] = 0, 0
    """Seconds and nanoseconds: of two quorums, the later one counts."""


def require_address(address: str | None) -> str:
    """The lighthouse's address, from the argument or from the environment.

    Args:
        address: As in "http://127.0.0.1:29510"; None takes `TORCHFT_LIGHTHOUSE`.

    Raises:
        InvalidArgument: There is none, or it is not of this form.

    """
    given = os.environ.get(VARIABLE) if address is None else address
    if given is None:
        raise InvalidArgument(
            "lighthouse",
            None,
            f'membership="live" needs the address of a lighthouse, here or in {VARIABLE}; '
            f"`basegraph launch` starts one",
        )
    form = "must be http://HOST:PORT"
    try:
        parts = urlsplit(given)
        port = parts.port
    except (ValueError, AttributeError, TypeError):
        raise InvalidArgument("lighthouse", given, form) from None
    if parts.scheme != "http" or not parts.hostname or port is None or parts.path not in ("", "/"):
        raise InvalidArgument("lighthouse", given, form)
    return f"http://{parts.netloc}"


def torchft_coordination() -> Any:
    """torchft's clients and servers; its log of every heartbeat and quorum is left out.

    Raises:
        MissingExtra: torchft is not installed.

    """
    require("torchft")
    os.environ.setdefault("RUST_LOG", "error")
    from torchft import coordination

    return coordination


class Lighthouse:
    """A node's connection to the lighthouse.

    Args:
        address: As `require_address` returns it.
        name: The node's name, different from all others'.

    Raises:
        InvalidArgument: Nobody answers at the address.

    """

    def __init__(self, address: str, name: str) -> None:
        self.address = address
        self.name = name
        coordination = torchft_coordination()
        try:
            self._client = coordination.LighthouseClient(address, timedelta(seconds=CONNECT))
            self._client.heartbeat(name, timedelta(seconds=CONNECT))
        except (RuntimeError, TimeoutError) as error:
            reason = " ".join(str(error).split()).rpartition(": ")[2]
            raise InvalidArgument(
                "lighthouse", address, f"no lighthouse answers there: {reason}"
            ) from None
        self.answers = True
        """Whether it has answered to the last heartbeat."""
        self._settled_at = 0.0
        self._known: tuple[int, list[str]] = (0, [])
        self._news = threading.Condition()
        self._newest: Quorum | None = None
        self._handled = 0, 0
        self._request: threading.Thread | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="basegraph heartbeat", daemon=True)
        self._thread.start()

    @property
    def fresh(self) -> bool:
        """Whether it was restarted just now, so that not all nodes have registered again."""
        return time.monotonic() < self._settled_at

    def close(self) -> None:
        """End the heartbeats.

        Threads are waited for: inside torchft, they would abort a process that is exiting.
        """
        self._over.set()
        self._thread.join(timeout=2 * CONNECT)
        if self._request is not None:
            self._request.join(timeout=LEAVE)

    def ask(
        self,
        store: str,
        step: int,
        data: dict[str, Any],
        limit: float,
        interrupted: Callable[[], bool],
    ) -> Quorum | None:
        """Ask who is alive, and wait until all of those ask.

        A quorum that this node is in counts, whichever of its requests is answered: the others act
        on it. One that has come before, after the last that was `handled`, is the answer at once.

        Args:
            store: Where this node's store is.
            step: Steps that this node has made.
            data: What else the other nodes should know.
            limit: Seconds to wait.
            interrupted: Whether to stop waiting; checked all the time.

        Returns:
            The quorum, or None if interrupted.

        Raises:
            LighthouseGone: The lighthouse does not answer.
            TimeoutError: There was no quorum in time: a node that is alive does not ask.

        """
        failure: Future[None] = Future()

        def call() -> None:
            try:
                self._came(
                    self._client.quorum(
                        replica_id=self.name,
                        timeout=timedelta(seconds=limit),
                        address="",
                        store_address=store,
                        step=step,
                        world_size=1,
                        shrink_only=False,
                        data=data,
                    )
                )
            except (RuntimeError, TimeoutError) as error:
                failure.set_exception(error)
            with self._news:
                self._news.notify_all()

        if not self.has_news:
            if not self.answers:
                raise LighthouseGone(f"the lighthouse at {self.address} is gone")
            self._request = threading.Thread(target=call, name="basegraph quorum", daemon=True)
            self._request.start()
        end = time.monotonic() + limit
        while not self.has_news:
            if failure.done() and isinstance(failure.exception(), RuntimeError):
                reason = " ".join(str(failure.exception()).split())[:160]
                raise LighthouseGone(f"the lighthouse at {self.address} does not answer: {reason}")
            if failure.done() or time.monotonic() > end:
                raise TimeoutError(f"no quorum within {limit:g} s")
            if interrupted():
                return None
            if not self.answers:  # a request to a lighthouse that hangs would not end
                raise LighthouseGone(f"the lighthouse at {self.address} is gone")
            with self._news:
                if not failure.done() and not self.has_news:
                    self._news.wait(PAUSE)
        return self._newest

    def handled(self, quorum: Quorum) -> None:
        """Do not give this quorum again, nor earlier ones."""
        self._handled = max(self._handled, quorum.created)

    @property
    def has_news(self) -> bool:
        """Whether there is a quorum that was not handled yet."""
        return self._newest is not None and self._newest.created > self._handled

    def silent(self, names: Iterable[str]) -> list[str]:
        """Which of these nodes the lighthouse counts as dead; none if it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.address}/status", timeout=CONNECT) as page:
                text = page.read().decode()
        except OSError:
            return []
        alive = {name for kind, name in SEEN.findall(text) if "old" not in kind}
        return [name for name in names if name not in alive] if self.name in alive else []

    def _came(self, answer: Any) -> None:
        """Take note of a quorum."""
        participants = [
            Participant(p.replica_id, p.store_address, p.step, p.data or {})
            for p in answer.participants
        ]
        number, names = int(answer.quorum_id), [p.name for p in participants]
        created = int(answer.created.seconds), int(answer.created.nanos)
        with self._news:
            known_number, known_names = self._known
            if number < known_number or (number == known_number and names != known_names):
                self._settled_at = time.monotonic() + SETTLE
            self._known = number, names
            if self._newest is None or created > self._newest.created:
                key = f"{number} {created[0]} {created[1]}"
                self._newest = Quorum(key, participants, created)

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT):
            try:
                self._client.heartbeat(self.name, timedelta(seconds=CONNECT))
            except (RuntimeError, TimeoutError):
                self.answers = False
            else:
                if not self.answers:
                    self._settled_at = time.monotonic() + SETTLE
                self.answers = True
