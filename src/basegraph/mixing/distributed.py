"""Mixing with one node per process: messages over `torch.distributed`.

A node is a rank of a process group. In a round it sends its vector, one message, to everyone who
hears it, and receives one from everyone it hears; messages carry the number of the exchange as
their tag, so that those of two exchanges are never taken for each other.

Shape legend: x_d the vector of this node.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph.errors import BasegraphError, InvalidArgument, PeerLost
from basegraph.mixing import collectives, progress
from basegraph.mixing.memory import empty_like
from basegraph.topology.sequence import Topology

TAGS = 2**20
"""Exchanges whose messages can be told apart."""


class NotFinite(BasegraphError):
    """A neighbour sent something that is no number."""

    exit_code = 1


class Neighbours(NamedTuple):
    """Whom this node hears, with weights, and who hears it, in one round."""

    hears: tuple[tuple[int, float], ...]
    tells: tuple[int, ...]


@dataclass
class Traffic:
    """What this node has sent and how long it has waited."""

    bytes_sent: int = 0
    messages_sent: int = 0
    seconds_waited: float = 0.0


class DistributedMixer:
    """The rounds of a topology between the ranks of a process group."""

    def __init__(
        self,
        topology: Topology,
        group: Any = None,
        *,
        timeout: float = 300.0,
        wire: torch.dtype | None = None,
        refuse_nonfinite: bool = False,
        local_steps: int = 1,
    ) -> None:
        size = dist.get_world_size(group)
        if size != topology.n:
            raise InvalidArgument(
                "topology", topology.spec, f"is for n={topology.n}; the process group has {size}"
            )
        self.topology = topology
        self.group = group
        self.node = dist.get_rank(group)
        self.timeout = progress.seconds(timeout)
        self.wire = wire
        self.refuse_nonfinite = refuse_nonfinite
        self.local_steps = local_steps  # of a user, per step here: to say where something happened
        self.traffic = Traffic()
        self._exchanges = 0
        self._neighbours: dict[int, Neighbours] = {}
        self._buffers: dict[tuple[object, ...], Tensor] = {}
        everyone = range(size)
        self._only_gloo = dist.get_backend(group) == "gloo"
        self._rank = [i if group is None else dist.get_global_rank(group, i) for i in everyone]

    def neighbours(self, step: int) -> Neighbours:
        """Whom this node hears and tells at a step."""
        period = self.topology.period
        phase = step if period is None else step % period
        if phase not in self._neighbours:
            if period is None:
                self._neighbours.clear()
            r = self.topology.round(phase)
            hears = tuple((int(j), float(w)) for j, w in sorted(r.neighbors(self.node).items()))
            tells = tuple(sorted(int(i) for i in r.receivers[r.senders == self.node]))
            self._neighbours[phase] = Neighbours(hears, tells)
        return self._neighbours[phase]

    def start(self, x_d: Tensor, step: int) -> Pending:
        """Begin an exchange; x_d must stay as it is until the exchange is finished."""
        hears, tells = self.neighbours(step)
        sent = x_d.contiguous()
        if self.wire not in (None, x_d.dtype):
            sent = self.buffer("sent", x_d, self.wire).copy_(x_d)
        tag = self._exchanges % TAGS
        self._exchanges += 1
        inbox = [self.buffer(slot, sent) for slot in range(len(hears))]
        messages: list[tuple[Any, Tensor, int]]
        messages = [(dist.irecv, box, j) for (j, _), box in zip(hears, inbox, strict=True)]
        messages += [(dist.isend, sent, j) for j in tells]
        works = self._post(messages, tag, step)
        self.traffic.messages_sent += len(tells)
        self.traffic.bytes_sent += len(tells) * sent.numel() * sent.element_size()
        return Pending(self, step, x_d, sent, inbox, works)

    def mix(self, x_d: Tensor, step: int, out: Tensor | None = None) -> Tensor:
        """What this node's vector becomes at a step."""
        return self.start(x_d, step).finish(out)

    def average(self, x_d: Tensor, step: int, out: Tensor) -> Tensor:
        """The exact average over all nodes, by all-reduce; x_d is overwritten."""
        collectives.all_reduce(x_d, self.group, f"step {step}", routine=True)
        return torch.div(x_d, self.topology.n, out=out)

    def buffer(self, name: object, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """A vector like this one, the same memory at every round: fresh memory is slow."""
        key = (name, dtype or like.dtype, like.device)
        found = self._buffers.get(key)
        if found is None or found.numel() < like.numel():
            found = self._buffers[key] = empty_like(like, dtype=dtype)
        return found[: like.numel()]

    def _post(self, messages: list[tuple[Any, Tensor, int]], tag: int, step: int) -> list[Any]:
        """Begin to send and receive: one by one over gloo, where a batch only costs time."""
        works: list[Any] = []
        peer = None
        try:
            if messages and not self._over_gloo(messages[0][1]):
                return dist.batch_isend_irecv(
                    [dist.P2POp(op, v, self._rank[j], self.group, tag) for op, v, j in messages]
                )
            for op, v, peer in messages:
                works.append(op(v, self._rank[peer], self.group, tag))
        except RuntimeError as error:
            raise self.lost(peer, self.when(step), error) from None
        return works

    def _over_gloo(self, sent: Tensor) -> bool:
        """Whether gloo takes it: a group that was made without a name has NCCL for GPUs only."""
        return self._only_gloo or sent.device.type == "cpu"

    def when(self, step: int) -> str:
        """The step of a user at which a step here is made, and its round."""
        period = self.topology.period
        place = "" if period is None else f" (round {step % period} of {period})"
        return f"step {(step + 1) * self.local_steps - 1}{place}"

    def lost(self, node: int | None, when: str, error: Exception) -> PeerLost:
        """What to say when a node did not answer."""
        return progress.of(self.group).peer_lost(node, when, error)


class Pending:
    """An exchange under way."""

    def __init__(
        self,
        mixer: DistributedMixer,
        step: int,
        x_d: Tensor,
        sent: Tensor,
        inbox: list[Tensor],
        works: list[Any],
    ) -> None:
        self.mixer = mixer
        self.step = step
        self.x_d = x_d
        self.sent = sent  # must live until it is sent
        self.inbox = inbox
        self.works = works

    def finish(self, out: Tensor | None = None) -> Tensor:
        """Wait for the messages; the mixed vector, in `out` if given (which may be x_d itself)."""
        began = time.perf_counter()
        hears, tells = self.mixer.neighbours(self.step)
        peers = [j for j, _ in hears] + list(tells)
        if len(self.works) == len(peers):
            for peer, work in zip(peers, self.works, strict=True):
                self._wait(peer, work)
        else:  # NCCL has one handle for the whole batch
            for work in self.works:
                self._wait(peers[0], work)
        self.mixer.traffic.seconds_waited += time.perf_counter() - began
        if self.mixer.refuse_nonfinite:
            self._refuse_nonfinite()
        return self._mixed(torch.empty_like(self.x_d) if out is None else out)

    def _mixed(self, out: Tensor) -> Tensor:
        hears, _ = self.mixer.neighbours(self.step)
        if not hears:
            return out if out is self.x_d else out.copy_(self.x_d)
        boxes = self.inbox
        if self.sent.dtype != self.x_d.dtype:
            wide = [self.mixer.buffer(("wide", i), self.x_d) for i in range(len(boxes))]
            boxes = [w.copy_(box) for w, box in zip(wide, boxes, strict=True)]
        if len(hears) == 1:
            return torch.lerp(self.x_d, boxes[0], hears[0][1], out=out)
        torch.mul(self.x_d, 1 - sum(weight for _, weight in hears), out=out)
        for (_, weight), box in zip(hears, boxes, strict=True):
            out.add_(box, alpha=weight)
        return out

    def _wait(self, peer: int, work: Any) -> None:
        try:
            if not work.wait(timedelta(seconds=self.mixer.timeout)):
                raise RuntimeError("timed out")
        except RuntimeError as error:
            raise self.mixer.lost(peer, self.mixer.when(self.step), error) from None

    def _refuse_nonfinite(self) -> None:
        hears, _ = self.mixer.neighbours(self.step)
        for (peer, _), box in zip(hears, self.inbox, strict=True):
            if not torch.isfinite(box.sum(dtype=torch.float32)) and not torch.isfinite(box).all():
                raise NotFinite(
                    f"node {self.mixer.node}: node {peer} sent values that are not finite at "
                    f"{self.mixer.when(self.step)}"
                )
