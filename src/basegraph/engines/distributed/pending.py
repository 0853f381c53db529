"""An exchange under way: the messages are posted, and waited for later."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from basegraph.engines.distributed.membership.contract import WaitEnded
from basegraph.engines.distributed.neighbors import Neighbors
from basegraph.engines.distributed.stamp import Stamp, require_same
from basegraph.engines.finite import finite
from basegraph.errors import RuntimeFailure

if TYPE_CHECKING:
    from basegraph.engines.distributed.mixer import DistributedMixer


Drift = list[tuple[float, Tensor]]
"""What the neighbors add to x: vectors, and the weights to add them with."""


def add_drift(x_d: Tensor, drift: Drift) -> Tensor:
    """Add what the neighbors add, in place.

    >>> add_drift(torch.zeros(2), [(0.5, torch.ones(2)), (0.25, torch.ones(2))])
    tensor([0.7500, 0.7500])
    """
    for weight, way in drift:
        x_d.add_(way, alpha=weight)
    return x_d


class NotFinite(RuntimeFailure):
    """A node, this one or a neighbor, sent NaN or infinity."""


class Pending:
    """An exchange under way."""

    def __init__(
        self,
        mixer: DistributedMixer,
        neighbors: Neighbors,
        stamp: Stamp,
        x_d: Tensor,
        sent: Tensor,
        packed: list[Tensor],
        stamps: list[Tensor],
        inbox: list[Tensor],
        works: list[Any],
    ) -> None:
        self.mixer = mixer
        self.stamp = stamp
        self.hears, self.tells = neighbors.hears, neighbors.tells
        self.when = stamp.when + neighbors.place
        self.x_d = x_d
        self.sent = sent  # this and `packed` must live until they are sent
        self.packed = packed
        self.stamps = stamps
        self.inbox = inbox
        self.works = works
        self.waited_before = mixer.traffic.seconds_waited

    def wait(self) -> None:
        """Wait for the messages, and refuse those that belong elsewhere."""
        works, self.works = self.works, []
        if not works:  # no node to wait for, or waited for before
            return
        started = time.perf_counter()
        try:
            waits = self.mixer.membership.wait(lambda: self._wait_for(works, started))
        except WaitEnded as error:
            waited = time.perf_counter() - started
            raise self.mixer.lost(None, self.when, error, waited) from None
        for peer, seconds in waits:
            self.mixer.traffic.wait_for(peer, seconds)
        self.mixer.traffic.seconds_waited += sum(seconds for _, seconds in waits)
        self.mixer.straggler.exchanged()

    def _wait_for(self, works: list[Any], started: float) -> list[tuple[int, float]]:
        """Which neighbor was waited for how long, message by message."""
        heard = [j for j, _ in self.hears]
        peers = [*heard, *heard, *self.tells, *self.tells]
        together = len(works) != len(peers)  # NCCL has one handle for the whole batch
        now, waits = started, []
        for place, work in enumerate(works):
            if place == len(heard) and not together:
                self._require_same_stamps()
            peer = peers[0] if together else peers[place]
            self._wait(peer, work, started)
            before, now = now, time.perf_counter()
            waits.append((peer, now - before))
        if together:
            self._require_same_stamps()
        return waits

    def finish(self, out: Tensor | None = None) -> Tensor:
        """Wait for the messages; the mixed vector, in `out` if given (which may be x_d itself)."""
        self.wait()
        self._bring_home()
        return self._mixed(torch.empty_like(self.x_d) if out is None else out)

    def drift(self) -> Drift:
        """Wait for the messages; what the neighbors add to x."""
        self.wait()
        self._bring_home()
        return self._differences()

    def _bring_home(self) -> None:
        """Have what was sent and received where x is: gloo takes it from the host's memory."""
        if self.sent.device != self.x_d.device:
            self.sent, *self.inbox = [
                self.mixer.buffer((self.stamp.content, "home", i), self.x_d).copy_(v)
                for i, v in enumerate([self.sent, *self.inbox])
            ]

    def _mixed(self, out: Tensor) -> Tensor:
        """x + Σ w (x_j - x)."""
        if len(self.hears) == 1:
            ((peer, weight),), (box,) = self.hears, self.inbox
            require_finite(self.sent, self)
            require_finite(box, self, peer)
            return torch.lerp(self.x_d, box, weight, out=out)
        drift = self._differences()
        if not drift:
            return out if out is self.x_d else out.copy_(self.x_d)
        (weight, way), *others = drift
        torch.add(self.x_d, way, alpha=weight, out=out)
        return add_drift(out, others)

    def _differences(self) -> Drift:
        """The weights, and x_j - x in the memory of what was received.

        Their test for NaN is one of both vectors; only where it fails it is asked whose they are.
        """
        if not self.hears:
            require_finite(self.sent, self)
        drift: Drift = []
        for (peer, weight), box in zip(self.hears, self.inbox, strict=True):
            box.sub_(self.sent)
            if self.mixer.refuse_nonfinite and not finite(box):
                require_finite(self.sent, self)
                require_finite(box, self, peer)
            drift.append((weight, box))
        return drift

    def _wait(self, peer: int, work: Any, started: float) -> None:
        try:
            if not work.wait(timedelta(seconds=self.mixer.membership.timeout)):
                raise RuntimeError("timed out")
        except RuntimeError as error:
            waited = time.perf_counter() - started
            raise self.mixer.lost(peer, self.when, error, waited) from None

    def _require_same_stamps(self) -> None:
        for (peer, _), message, box in zip(self.hears, self.stamps, self.inbox, strict=True):
            stamp, waited = Stamp.unpack(message)
            require_same(self.stamp._replace(size=box.numel()), stamp, self.mixer.node, peer)
            self.mixer.straggler.heard(peer, self.waited_before, waited)


def require_finite(v: Tensor, pending: Pending, peer: int | None = None) -> None:
    """Refuse what a neighbor sent, or this node's own values, if they are not finite.

    Args:
        v: The values.
        pending: The exchange that they belong to; its mixer says whether anything is refused.
        peer: The neighbor; None for this node.

    Raises:
        NotFinite: One of them is NaN or infinity.

    """
    node = pending.mixer.node
    if not pending.mixer.refuse_nonfinite or finite(v):
        return
    what = "its own values are" if peer is None else f"node {peer} sent values that are"
    raise NotFinite(f"node {node}: {what} not finite at {pending.when}")
