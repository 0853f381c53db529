"""Exchanges in fewer bytes: messages as a wire packs them, and what both ends of a link know.

If an exchange fails, nothing has moved, and nothing is known that was not known before: what a link
knows is written only when all messages of the round are there.

Shape legend: x_d the vector of this node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from basegraph.engines.distributed.memory import empty_like, host_memory
from basegraph.engines.distributed.neighbors import Neighbors
from basegraph.engines.distributed.pending import Drift, Pending, require_finite
from basegraph.engines.distributed.stamp import Stamp
from basegraph.errors import InvalidArgument
from basegraph.wires.contract import Parts, Wire, layout_bytes, unpacked
from basegraph.wires.residue import add_with_residue

if TYPE_CHECKING:
    from basegraph.engines.distributed.mixer import DistributedMixer


CACHED = 2**16
"""Numbers whose temporaries fit into a core's cache: fresh memory is many times slower."""


class Known(NamedTuple):
    """What both ends of a link know of each other."""

    mine: Tensor
    """What the neighbor knows of this node."""
    theirs: Tensor
    """What this node knows of the neighbor."""


class Encoder:
    """Packs what a node sends, and remembers what its neighbors know, where the wire needs that.

    Args:
        wire: How vectors are sent.

    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.known: dict[int, Known] = {}
        """By neighbor; those that are missing are sent the whole vector next time."""
        self._residues: dict[int, Tensor] = {}
        self._bytes: dict[tuple[object, ...], Tensor] = {}

    def reset(self) -> None:
        """Forget what neighbors know: all nodes must do so after the same exchange.

        The average over nodes stays as it is: it is kept by how nodes move, whatever is known.
        """
        self.known.clear()
        self._residues.clear()

    def moved(self, x_d: Tensor, drift: Drift, out: Tensor | None) -> Tensor:
        """Add what the neighbors add; what rounding leaves out is added the next time.

        Args:
            x_d: The vector.
            drift: What is added, something at least; it is overwritten.
            out: Where the sum goes; x_d itself may.

        """
        ways = [way if weight == 1 else way.mul_(weight) for weight, way in drift]
        size = x_d.numel()
        out = torch.empty_like(x_d) if out is None else out
        if size not in self._residues:
            self._residues[size] = empty_like(x_d).zero_()
        vectors = (x_d, self._residues[size], out, *ways)
        piece = CACHED if x_d.device.type == "cpu" else max(1, size)
        for x, residue, sum_, *d in zip(*(torch.split(v, piece) for v in vectors), strict=True):
            moved, left = add_with_residue(x, d, residue)
            sum_.copy_(moved)
            residue.copy_(left)
        return out

    def start(
        self, mixer: DistributedMixer, x_d: Tensor, stamp: Stamp, neighbors: Neighbors
    ) -> EncodedExchange | PartialExchange:
        """Begin an exchange; x_d may change meanwhile."""
        if not x_d.is_floating_point():
            raise InvalidArgument("wire", self.wire.spec, f"is for real numbers, not {x_d.dtype}")
        if self.wire.coordinates is not None:
            places = self.wire.coordinates.at(neighbors.number, x_d.numel(), x_d.device)
            pending = mixer.start_plain(x_d[places], stamp, neighbors)
            return PartialExchange(pending, x_d, places)
        host = mixer.over_gloo(x_d) and x_d.device.type != "cpu"
        outgoing = self._outgoing(x_d, neighbors, host=host)
        inbox = [
            self._buffer(("heard", slot), x_d, self._message_bytes(x_d, j), host=host)
            for slot, (j, _) in enumerate(neighbors.hears)
        ]
        pending = mixer.post(x_d, stamp, neighbors, outgoing, inbox)
        return EncodedExchange(self, pending, outgoing)

    def _outgoing(self, x_d: Tensor, neighbors: Neighbors, *, host: bool) -> list[Tensor]:
        """A message for every neighbor that hears this node: one for all, or each its own."""
        codec = self.wire.codec
        assert codec is not None
        if not self.wire.links:
            parts = codec.encode(x_d) if neighbors.tells else ()
            message = self._packed("told", x_d, parts, host=host)
            return [message] * len(neighbors.tells)
        messages = []
        for slot, j in enumerate(neighbors.tells):
            known = self.known.get(j)
            parts = (x_d,) if known is None else codec.encode(x_d - known.mine)
            messages.append(self._packed(("told", slot), x_d, parts, host=host))
        return messages

    def _packed(self, name: object, x_d: Tensor, parts: Parts, *, host: bool) -> Tensor:
        """The parts of a message in one vector of bytes."""
        sections = [part.contiguous().view(torch.uint8) for part in parts]
        size = sum(section.numel() for section in sections)
        message = self._buffer((name, size), x_d, size, host=host)
        first = 0
        for section in sections:
            message[first : first + section.numel()].copy_(section)
            first += section.numel()
        return message

    def _buffer(self, name: object, x_d: Tensor, size: int, *, host: bool) -> Tensor:
        """So many bytes, the same memory at every round."""
        key = (name, size, host)
        if key not in self._bytes:
            like = empty_like(x_d, size=size, dtype=torch.uint8)
            self._bytes[key] = host_memory(like) if host else like
        return self._bytes[key]

    def _message_bytes(self, x_d: Tensor, j: int) -> int:
        """Bytes of the message from a neighbor."""
        if self.wire.links and j not in self.known:
            return x_d.nbytes
        return self.wire.message_bytes(x_d.numel(), x_d.dtype)

    def vector(self, message: Tensor, x_d: Tensor, slot: int) -> Tensor:
        """What a message says, without links, in memory that is the same at every round."""
        key = ("vector", slot, x_d.numel(), x_d.dtype)
        if key not in self._bytes:
            self._bytes[key] = empty_like(x_d)
        return self.decoded(message, x_d, None, self._bytes[key])

    def decoded(
        self, message: Tensor, x_d: Tensor, known: Tensor | None, out: Tensor | None = None
    ) -> Tensor:
        """What a message says: a vector, or what is known with the difference that was sent."""
        codec, size = self.wire.codec, x_d.numel()
        assert codec is not None
        if self.wire.links and known is None:
            return message.to(x_d.device, copy=True).view(x_d.dtype)
        layout = codec.layout(size, x_d.dtype)
        assert message.numel() == layout_bytes(layout)
        v = codec.decode(unpacked(message.to(x_d.device), layout), size, x_d.dtype, out)
        return v if known is None else v.add_(known)


class EncodedExchange:
    """An exchange of packed messages under way.

    Args:
        encoder: Whose it is.
        pending: The messages.
        outgoing: What was sent, by the order of those that hear this node.

    """

    def __init__(self, encoder: Encoder, pending: Pending, outgoing: list[Tensor]) -> None:
        self._encoder = encoder
        self._pending = pending
        self._outgoing = outgoing

    def wait(self) -> None:
        """Wait for the messages, and refuse those that belong elsewhere."""
        self._pending.wait()

    def finish(self, out: Tensor | None = None) -> Tensor:
        """Wait for the messages; the mixed vector, in `out` if given (which may be x_d itself)."""
        drift, x_d = self.drift(), self._pending.x_d
        if not drift:
            return x_d.clone() if out is None else out if out is x_d else out.copy_(x_d)
        return self._encoder.moved(x_d, drift, out)

    def drift(self) -> Drift:
        """Wait for the messages; what the neighbors add to x."""
        self._pending.wait()
        if not self._pending.hears:
            return []
        return self._over_links() if self._encoder.wire.links else self._directly()

    def _directly(self) -> Drift:
        """w (q_j - q), of what was sent: what is rounded at a node stays at that node."""
        pending, vector = self._pending, self._encoder.vector
        x_d = pending.x_d
        # A node that only hears has sent nothing; rounds of this library have no such nodes.
        own = vector(self._outgoing[0], x_d, 0)
        require_finite(own, pending)
        drift: Drift = []
        for slot, ((peer, weight), box) in enumerate(
            zip(pending.hears, pending.inbox, strict=True), start=1
        ):
            theirs = vector(box, x_d, slot)
            require_finite(theirs, pending, peer)
            drift.append((weight, theirs.sub_(own)))
        return drift

    def _over_links(self) -> Drift:
        """γw (q_ji - q_ij), neighbor by neighbor; what is known moves along."""
        pending, encoder = self._pending, self._encoder
        x_d, step = pending.x_d, encoder.wire.step
        sent = dict(zip(pending.tells, self._outgoing, strict=True))
        drift: Drift = []
        learned: dict[int, Known] = {}
        for (peer, weight), box in zip(pending.hears, pending.inbox, strict=True):
            known = encoder.known.get(peer)
            mine = encoder.decoded(sent[peer], x_d, known and known.mine)
            theirs = encoder.decoded(box, x_d, known and known.theirs)
            require_finite(mine, pending)
            require_finite(theirs, pending, peer)
            way = (theirs - mine).mul_(weight * step)
            learned[peer] = Known(mine.add_(way), theirs.sub_(way))
            drift.append((1.0, way))
        encoder.known.update(learned)
        return drift


class PartialExchange:
    """An exchange of some of a vector's values under way.

    Args:
        pending: The exchange of these values.
        x_d: The whole vector.
        places: Where they are in it.

    """

    def __init__(self, pending: Pending, x_d: Tensor, places: Tensor) -> None:
        self._pending = pending
        self._x_d = x_d
        self._places = places

    def wait(self) -> None:
        """Wait for the messages, and refuse those that belong elsewhere."""
        self._pending.wait()

    def finish(self, out: Tensor | None = None) -> Tensor:
        """Wait for the messages; the mixed vector, in `out` if given (which may be x_d itself)."""
        mixed = self._pending.finish()
        require_finite(self._x_d, self._pending)
        if out is None:
            out = self._x_d.clone()
        elif out is not self._x_d:
            out.copy_(self._x_d)
        return out.index_copy_(0, self._places, mixed)

    def drift(self) -> Drift:
        """Wait for the messages; what the neighbors add to x."""
        return [
            (weight, torch.zeros_like(self._x_d).index_copy_(0, self._places, way))
            for weight, way in self._pending.drift()
        ]
