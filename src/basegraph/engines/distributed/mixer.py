"""Mixing with one node per process: messages over `torch.distributed`.

A node is a rank of a process group. In a round it sends its vector, one message, to every node that
hears it, and receives one from every node it hears. Each is announced by a stamp, which says what
it belongs to. A node then moves by x + Σ w (x_j - x): where all agree nothing moves, whatever the
rounding of the weights.

Shape legend: x_d the vector of this node.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, finalize

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph.engines.distributed import collectives
from basegraph.engines.distributed.encoded import EncodedExchange, Encoder, PartialExchange
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.waiter import Waiter
from basegraph.engines.distributed.memory import empty_like, host_memory
from basegraph.engines.distributed.neighbors import Neighbors
from basegraph.engines.distributed.pending import NotFinite, Pending
from basegraph.engines.distributed.stamp import Stamp, require_same
from basegraph.engines.distributed.traffic import Straggler, Traffic
from basegraph.engines.finite import finite
from basegraph.errors import PeerLost
from basegraph.wires.contract import Wire

AnyExchange = Pending | EncodedExchange | PartialExchange
"""An exchange under way, as `DistributedMixer.start` begins it."""
STAMP_TAG, VECTOR_TAGS = 7001, 7002
"""Tags of stamps and of vectors, which add their size: gloo aborts where sizes differ."""
_NUMBERS: WeakKeyDictionary[Any, Iterator[int]] = WeakKeyDictionary()
"""Of each process group, the numbers for its next mixers."""


class DistributedMixer:
    """Exchanges of vectors between nodes.

    Args:
        membership: Who the nodes are.
        wire: How vectors are sent; in their own type if None.
        refuse_nonfinite: Refuse NaN and infinity, from neighbors and in what this node sends.
        traffic: What this node has sent before, to be counted on.

    """

    def __init__(
        self,
        membership: Membership,
        *,
        wire: Wire | None = None,
        refuse_nonfinite: bool = False,
        traffic: Traffic | None = None,
    ) -> None:
        self.membership = membership
        self.node = membership.node
        self.encoder = None if wire is None else Encoder(wire)
        """Packs parameters into fewer bytes; None where they are sent as they are."""
        self.refuse_nonfinite = refuse_nonfinite
        group = membership.group
        self.number = next(_NUMBERS.setdefault(group, count()))
        """Which of the group's mixers, so that messages of one are not taken for another's."""
        self.traffic = traffic or Traffic()
        self.straggler = Straggler(self.node, self.traffic)
        self._buffers: dict[tuple[object, ...], Tensor] = {}
        self._only_gloo = membership.only_gloo
        self._poster = Waiter()
        finalize(self, self._poster.renew)

    def start(
        self,
        x_d: Tensor,
        stamp: Stamp,
        neighbors: Neighbors,
        *,
        copy: bool = False,
        as_is: bool = False,
    ) -> AnyExchange:
        """Begin an exchange; x_d must stay as it is until the exchange is finished.

        Args:
            x_d: The vector of this node.
            stamp: What the exchange belongs to; the number of the round is filled in here.
            neighbors: With whom.
            copy: Send a copy, so that x_d may change meanwhile.
            as_is: Send the vector as it is, whatever `wire` is.

        """
        encoder = None if as_is or stamp.content != "parameters" else self.encoder
        if encoder is None or encoder.wire.keeps(x_d.dtype):
            return self.start_plain(x_d, stamp, neighbors, copy=copy)
        return encoder.start(self, x_d, stamp, neighbors)

    def start_plain(
        self,
        x_d: Tensor,
        stamp: Stamp,
        neighbors: Neighbors,
        *,
        copy: bool = False,
    ) -> Pending:
        """Begin an exchange of vectors as they are; see `start`."""
        sent = x_d.contiguous()
        if self.over_gloo(x_d) and x_d.device.type != "cpu":
            sent = self.buffer((stamp.content, "sent"), x_d, host=True).copy_(x_d)
        elif copy:
            sent = self.buffer((stamp.content, "sent"), x_d).copy_(x_d)
        inbox = [self.buffer((stamp.content, slot), sent) for slot in range(len(neighbors.hears))]
        return self.post(x_d, stamp, neighbors, [sent] * len(neighbors.tells), inbox, sent)

    def post(
        self,
        x_d: Tensor,
        stamp: Stamp,
        neighbors: Neighbors,
        outgoing: list[Tensor],
        inbox: list[Tensor],
        sent: Tensor | None = None,
    ) -> Pending:
        """Begin to send and to receive, every message behind a stamp with its size.

        Args:
            x_d: The vector of this node.
            stamp: What the exchange belongs to.
            neighbors: With whom.
            outgoing: What is sent to each of those that hear this node.
            inbox: Where what is heard goes, neighbor by neighbor.
            sent: The vector as it is sent, where that is one for all.

        """
        stamp = stamp._replace(
            number=neighbors.number, optimizer=self.number, epoch=self.membership.epoch
        )
        where = [*outgoing, *inbox, x_d][0].device
        packed = {
            size: stamp._replace(size=size).pack(where, self.traffic.seconds_waited)
            for size in dict.fromkeys(message.numel() for message in outgoing)
        }
        stamps = [Stamp.empty(where) for _ in inbox]
        heard, tells = [j for j, _ in neighbors.hears], neighbors.tells
        messages = [
            *(("recv", box, j, STAMP_TAG) for j, box in zip(heard, stamps, strict=True)),
            *(("recv", box, j, _tag(box)) for j, box in zip(heard, inbox, strict=True)),
            *(
                ("send", packed[v.numel()], j, STAMP_TAG)
                for j, v in zip(tells, outgoing, strict=True)
            ),
            *(("send", v, j, _tag(v)) for j, v in zip(tells, outgoing, strict=True)),
        ]
        works = self._post(messages, stamp.when + neighbors.place)
        pending = Pending(
            *(self, neighbors, stamp, x_d, x_d if sent is None else sent),
            *(list(packed.values()), stamps, inbox, works),
        )
        self.traffic.messages_sent += len(tells)
        self.traffic.bytes_sent += sum(message.nbytes for message in outgoing)
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

    def require_together(self, v: Tensor, stamp: Stamp, *, routine: bool = False) -> None:
        """Refuse a collective on a vector that not all nodes make for the same purpose.

        Backends add up whatever nodes send at the same time, and abort the process where sizes
        differ. So all nodes compare their stamps first.

        Args:
            v: This node's vector.
            stamp: What the collective belongs to.
            routine: Whether it happens at every step.

        Raises:
            OutOfStep: At every node; names two that differ.

        """
        mine = stamp._replace(optimizer=self.number, size=v.numel(), epoch=self.membership.epoch)
        message = mine.pack(self.membership.device)
        rows = collectives.all_gather(message, self.membership, stamp.when, routine=routine)
        for peer, row in enumerate(rows):
            require_same(mine, Stamp.unpack(row)[0], self.node, peer)

    def average(self, x_d: Tensor, step: int, out: Tensor) -> Tensor:
        """The exact average over all nodes, by all-reduce; x_d is overwritten."""
        self.require_together(x_d, Stamp("step()", step), routine=True)
        collectives.all_reduce(x_d, self.membership, f"step {step}", routine=True)
        self.traffic.count_all_reduce(x_d.nbytes, self.membership.n)
        if self.refuse_nonfinite and not finite(x_d):
            raise NotFinite(f"node {self.node}: all nodes' sum is not finite at step {step}")
        return torch.div(x_d, self.membership.n, out=out)

    def buffer(
        self, name: object, like: Tensor, dtype: torch.dtype | None = None, *, host: bool = False
    ) -> Tensor:
        """A vector like this one, the same memory at every round: fresh memory is slow.

        Args:
            name: What it is for.
            like: The vector.
            dtype: Its type, if it is another.
            host: Whether it is in the host's memory, wherever the vector is.

        """
        key = (name, dtype or like.dtype, host or like.device)
        known = self._buffers.get(key)
        if known is None or known.numel() < like.numel():
            known = host_memory(like, dtype) if host else empty_like(like, dtype=dtype)
            self._buffers[key] = known
        return known[: like.numel()]

    def _post(self, messages: list[tuple[str, Tensor, int, int]], when: str) -> list[Any]:
        """Begin to send and receive: one by one over gloo, where a batch only costs time.

        There a thread does it that does nothing else. Whoever posts a message holds a lock of the
        connection, for which gloo's own thread waits in a loop that takes all of a processor. A
        thread that computes is often suspended meanwhile, one that mostly sleeps hardly ever.
        """
        group = self.membership.group
        peer: int | None = None
        try:
            if messages and not self.over_gloo(messages[0][1]):
                batch = {"send": dist.isend, "recv": dist.irecv}
                return dist.batch_isend_irecv(
                    [
                        dist.P2POp(batch[kind], v, dist.get_global_rank(group, j), group, tag)
                        for kind, v, j, tag in messages
                    ]
                )
            works: list[Any] = []

            def post() -> list[Any]:
                nonlocal peer
                for kind, v, peer, tag in messages:
                    begin = group.send if kind == "send" else group.recv
                    works.append(begin([collectives.real_view(v)], peer, tag))
                return works

            return self._poster.begin(post).result() if messages else works
        except RuntimeError as error:
            raise self.lost(peer, when, error, 0.0) from None

    def over_gloo(self, sent: Tensor) -> bool:
        """Whether gloo takes it: a group that was made without a name has NCCL for GPUs only."""
        return self._only_gloo or sent.device.type == "cpu"

    def lost(self, node: int | None, when: str, error: Exception, waited: float) -> PeerLost:
        """What to say when a node did not answer in so many seconds."""
        return self.membership.progress.peer_lost(node, when, error, waited)


def _tag(message: Tensor) -> int:
    return VECTOR_TAGS + message.nbytes % 2**20
