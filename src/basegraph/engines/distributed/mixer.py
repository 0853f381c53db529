"""Mixing with one node per process: messages over `torch.distributed`.

A node is a rank of a process group. In a round it sends its vector, one message, to everyone who
hears it, and receives one from everyone it hears. Each is announced by a stamp, which says what it
belongs to. A node then moves by x + Σ w (x_j - x): where all agree nothing moves, whatever the
rounding of the weights.

Shape legend: x_d the vector of this node.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph.engines.distributed import collectives
from basegraph.engines.distributed.membership.contract import Membership, WaitEnded
from basegraph.engines.distributed.memory import empty_like
from basegraph.engines.distributed.neighbors import Neighbors
from basegraph.engines.distributed.stamp import Stamp, require_same
from basegraph.engines.distributed.traffic import Straggler, Traffic
from basegraph.engines.finite import finite
from basegraph.errors import PeerLost, RuntimeFailure

STAMP_TAG, VECTOR_TAGS = 7001, 7002
"""Tags of stamps and of vectors, which add their size: gloo aborts where sizes differ."""
_NUMBERS: WeakKeyDictionary[Any, Iterator[int]] = WeakKeyDictionary()
"""Of each process group, the numbers for its next mixers."""


class NotFinite(RuntimeFailure):
    """A node, this one or a neighbor, sent NaN or infinity."""


class DistributedMixer:
    """Exchanges of vectors between nodes.

    Args:
        membership: Who the nodes are.
        wire: The type of what is sent; the vectors' own if None.
        refuse_nonfinite: Refuse NaN and infinity, from neighbors and in what this node sends.
        traffic: What this node has sent before, to be counted on.

    """

    def __init__(
        self,
        membership: Membership,
        *,
        wire: torch.dtype | None = None,
        refuse_nonfinite: bool = False,
        traffic: Traffic | None = None,
    ) -> None:
        self.membership = membership
        self.node = membership.node
        self.wire = wire
        self.refuse_nonfinite = refuse_nonfinite
        group = membership.group
        self.number = next(_NUMBERS.setdefault(group, count()))
        """Which of the group's mixers, so that messages of one are not taken for another's."""
        self.traffic = traffic or Traffic()
        self.straggler = Straggler(self.node, self.traffic)
        self._buffers: dict[tuple[object, ...], Tensor] = {}
        self._only_gloo = membership.only_gloo

    def start(
        self,
        x_d: Tensor,
        stamp: Stamp,
        neighbors: Neighbors,
        *,
        copy: bool = False,
        as_is: bool = False,
    ) -> Pending:
        """Begin an exchange; x_d must stay as it is until the exchange is finished.

        Args:
            x_d: The vector of this node.
            stamp: What the exchange belongs to; the number of the round is filled in here.
            neighbors: With whom.
            copy: Send a copy, so that x_d may change meanwhile.
            as_is: Send the vector in its own type, whatever `wire` is.

        """
        wire = x_d.dtype if as_is or self.wire is None else self.wire
        hears, tells = neighbors.hears, neighbors.tells
        sent = x_d.contiguous()
        if copy or wire != x_d.dtype:
            sent = self.buffer((stamp.content, "sent"), x_d, wire).copy_(x_d)
        stamp = stamp._replace(
            number=neighbors.number,
            size=sent.numel(),
            optimizer=self.number,
            epoch=self.membership.epoch,
        )
        inbox = [self.buffer((stamp.content, slot), sent) for slot in range(len(hears))]
        packed = stamp.pack(sent.device, self.traffic.seconds_waited)
        stamps = [torch.empty_like(packed) for _ in hears]
        tag = VECTOR_TAGS + sent.nbytes % 2**20
        heard = [j for j, _ in hears]
        messages = [
            *(("recv", box, j, STAMP_TAG) for j, box in zip(heard, stamps, strict=True)),
            *(("recv", box, j, tag) for j, box in zip(heard, inbox, strict=True)),
            *(("send", packed, j, STAMP_TAG) for j in tells),
            *(("send", sent, j, tag) for j in tells),
        ]
        works = self._post(messages, stamp.when + neighbors.place)
        pending = Pending(self, neighbors, stamp, x_d, sent, packed, stamps, inbox, works)
        self.traffic.messages_sent += len(tells)
        self.traffic.bytes_sent += len(tells) * sent.nbytes
        return pending

    def mix(
        self,
        x_d: Tensor,
        stamp: Stamp,
        neighbors: Neighbors,
        *,
        out: Tensor | None = None,
        as_is: bool = False,
    ) -> Tensor:
        """What this node's vector becomes in a round."""
        return self.start(x_d, stamp, neighbors, as_is=as_is).finish(out)

    def average(self, x_d: Tensor, step: int, out: Tensor) -> Tensor:
        """The exact average over all nodes, by all-reduce; x_d is overwritten."""
        collectives.all_reduce(x_d, self.membership, f"step {step}", routine=True)
        if self.refuse_nonfinite and not finite(x_d):
            raise NotFinite(f"node {self.node}: all nodes' sum is not finite at step {step}")
        return torch.div(x_d, self.membership.n, out=out)

    def buffer(self, name: object, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """A vector like this one, the same memory at every round: fresh memory is slow."""
        key = (name, dtype or like.dtype, like.device)
        known = self._buffers.get(key)
        if known is None or known.numel() < like.numel():
            known = self._buffers[key] = empty_like(like, dtype=dtype)
        return known[: like.numel()]

    def _post(self, messages: list[tuple[str, Tensor, int, int]], when: str) -> list[Any]:
        """Begin to send and receive: one by one over gloo, where a batch only costs time."""
        works: list[Any] = []
        peer = None
        group = self.membership.group
        try:
            if messages and not self._over_gloo(messages[0][1]):
                batch = {"send": dist.isend, "recv": dist.irecv}
                return dist.batch_isend_irecv(
                    [
                        dist.P2POp(batch[kind], v, dist.get_global_rank(group, j), group, tag)
                        for kind, v, j, tag in messages
                    ]
                )
            for kind, v, peer, tag in messages:
                post = group.send if kind == "send" else group.recv
                works.append(post([collectives.real_view(v)], peer, tag))
        except RuntimeError as error:
            raise self.lost(peer, when, error, 0.0) from None
        return works

    def _over_gloo(self, sent: Tensor) -> bool:
        """Whether gloo takes it: a group that was made without a name has NCCL for GPUs only."""
        return self._only_gloo or sent.device.type == "cpu"

    def lost(self, node: int | None, when: str, error: Exception, waited: float) -> PeerLost:
        """What to say when a node did not answer in so many seconds."""
        return self.membership.progress.peer_lost(node, when, error, waited)


class Pending:
    """An exchange under way."""

    def __init__(
        self,
        mixer: DistributedMixer,
        neighbors: Neighbors,
        stamp: Stamp,
        x_d: Tensor,
        sent: Tensor,
        packed: Tensor,
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
        if not works:  # nobody to wait for, or waited for before
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
        if self.mixer.refuse_nonfinite:
            self._refuse_nonfinite()
        return self._mixed(torch.empty_like(self.x_d) if out is None else out)

    def drift(self) -> Tensor | None:
        """Wait for the messages; what the neighbors add to x, None if there are none."""
        self.wait()
        if self.mixer.refuse_nonfinite:
            self._refuse_nonfinite()
        if not self.hears:
            return None
        weights = [weight for _, weight in self.hears]
        total, *others = self._differences()
        total.mul_(weights[0])
        for weight, box in zip(weights[1:], others, strict=True):
            total.add_(box, alpha=weight)
        return total

    def _mixed(self, out: Tensor) -> Tensor:
        """x + Σ w (x_j - x), both as they were sent: what is rounded on the wire cancels."""
        if not self.hears:
            return out if out is self.x_d else out.copy_(self.x_d)
        weights = [weight for _, weight in self.hears]
        if len(weights) == 1 and self.sent.dtype == self.x_d.dtype:
            return torch.lerp(self.x_d, self.inbox[0], weights[0], out=out)
        boxes = self._differences()
        torch.add(self.x_d, boxes[0], alpha=weights[0], out=out)
        for weight, box in zip(weights[1:], boxes[1:], strict=True):
            out.add_(box, alpha=weight)
        return out

    def _differences(self) -> list[Tensor]:
        """x_j - x as they were sent, in the type of x, in the memory of what was received."""
        own, boxes = self.sent, self.inbox
        if own.dtype != self.x_d.dtype:  # arithmetic on two types at once is many times slower
            own, *boxes = [
                self.mixer.buffer((self.stamp.content, "wide", i), self.x_d).copy_(narrow)
                for i, narrow in enumerate([own, *boxes])
            ]
        return [box.sub_(own) for box in boxes]

    def _wait(self, peer: int, work: Any, started: float) -> None:
        try:
            if not work.wait(timedelta(seconds=self.mixer.membership.timeout)):
                raise RuntimeError("timed out")
        except RuntimeError as error:
            waited = time.perf_counter() - started
            raise self.mixer.lost(peer, self.when, error, waited) from None

    def _require_same_stamps(self) -> None:
        for (peer, _), message in zip(self.hears, self.stamps, strict=True):
            stamp, waited = Stamp.unpack(message)
            require_same(self.stamp, stamp, self.mixer.node, peer)
            self.mixer.straggler.heard(peer, self.waited_before, waited)

    def _refuse_nonfinite(self) -> None:
        """The node's own values as well: what it had before the step can still be saved."""
        if not finite(self.sent):
            raise NotFinite(f"node {self.mixer.node}: its own values are not finite at {self.when}")
        for (peer, _), box in zip(self.hears, self.inbox, strict=True):
            if not finite(box):
                raise NotFinite(
                    f"node {self.mixer.node}: node {peer} sent values that are not finite at "
                    f"{self.when}"
                )
