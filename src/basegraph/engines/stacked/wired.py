"""Mixing with all nodes in one process, of vectors as they come over a wire.

Every rule moves nodes by differences that sum to zero over all nodes, so that the average of all
stays where it is, whatever is lost on the wire.

Shape legend: x_nd nodes × numbers; q_nd the same as neighbors know it; copies_ad a row for each arc
of the period: what its receiver knows of its sender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from basegraph.engines.stacked.mixer import StackedMixer
from basegraph.engines.stacked.peers import peers_of
from basegraph.topologies.core.phases import PerPhase
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Topology
from basegraph.wires.catalog import require_wire
from basegraph.wires.contract import Wire
from basegraph.wires.links import LinkTable
from basegraph.wires.residue import add_with_residue


class WiredMixer:
    """The rounds of a topology, mixing what comes over a wire.

    Args:
        topology: Whose rounds they are.
        device: Where the nodes' vectors are.
        dtype: The type of their numbers.
        wire: What they are sent by.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> from basegraph.wires import wire
        >>> mixer = WiredMixer(
        ...     topology("base", n=2), torch.device("cpu"), torch.float32, wire("int8:block=1")
        ... )
        >>> mixer.round(0)(torch.tensor([[0.0], [1.0]])).tolist()
        [[0.5], [0.5]]

    """

    def __init__(
        self, topology: Topology, device: torch.device, dtype: torch.dtype, wire: Wire
    ) -> None:
        require_wire(wire, topology)
        self.wire = wire
        self._topology = topology
        self._device, self._dtype = device, dtype
        self._plain = StackedMixer(topology, device, dtype)
        self._peers = PerPhase(topology, lambda index: self._heard(topology.round(index)))
        self._links = LinkTable(topology) if wire.links else None
        self._arcs = PerPhase(topology, self._arcs_of)
        self._residue_nd: Tensor | None = None  # what rounding has left out of x so far
        self._copies_ad: Tensor | None = None
        self._used = np.zeros(0 if self._links is None else self._links.count, dtype=bool)

    def round(self, number: int) -> Callable[[Tensor], Tensor]:
        """The mix of a round, counted on over periods."""
        if self.wire.coordinates is not None:
            return lambda x_nd: self._some(x_nd, number)
        if self.wire.keeps(self._dtype):
            return self._plain.round(number)
        move = self._over_links if self.wire.links else self._directly
        return lambda x_nd: self._moved(x_nd, move(x_nd, number))

    def _moved(self, x_nd: Tensor, ways: Iterable[Tensor]) -> Tensor:
        moved, self._residue_nd = add_with_residue(x_nd, ways, self._residue_nd)
        return moved

    def known(self, x_nd: Tensor) -> Tensor:
        """What neighbors know of the nodes' vectors, where nothing is remembered."""
        codec = self.wire.codec
        assert codec is not None
        return codec.decode(codec.encode(x_nd), x_nd.shape[1], x_nd.dtype)

    def _directly(self, x_nd: Tensor, number: int) -> Iterator[Tensor]:
        """w (q_j - q), neighbor by neighbor: what is rounded at a node stays at that node."""
        peer_nk, weight_nk = self._peers(number)
        q_nd = self.known(x_nd)
        for slot in range(peer_nk.shape[1]):
            difference = q_nd.index_select(0, peer_nk[:, slot]).sub_(q_nd)
            yield difference.mul_(weight_nk[:, slot, None])

    def _some(self, x_nd: Tensor, number: int) -> Tensor:
        """Mix some of the columns as they are."""
        assert self.wire.coordinates is not None
        places = self.wire.coordinates.at(number, x_nd.shape[1], x_nd.device)
        mixed = self._plain.round(number)(x_nd.index_select(1, places))
        return x_nd.index_copy(1, places, mixed)

    def _over_links(self, x_nd: Tensor, number: int) -> Iterator[Tensor]:
        """Both ends of a link move by γw (q_j - q_i), and so does what they know of each other."""
        links, codec = self._links, self.wire.codec
        assert links is not None
        assert codec is not None
        ids = links.of(number)
        if not len(ids):
            return
        arcs = self._arcs(number)
        copies_ad = self._copies(x_nd)
        x_ad = x_nd.index_select(0, arcs.senders)
        known_ad = copies_ad.index_select(0, arcs.ids)
        parts = codec.encode(x_ad - known_ad)
        known_ad += codec.decode(parts, x_nd.shape[1], x_nd.dtype)
        if not self._used[ids].all():  # the first message of a link is the whole vector
            used = torch.as_tensor(self._used[ids], device=x_nd.device)
            known_ad = torch.where(used[:, None], known_ad, x_ad)
            self._used[ids] = True
        way_ad = known_ad.index_select(0, arcs.back).sub_(known_ad)
        way_ad *= arcs.weights[:, None] * self.wire.step
        copies_ad.index_copy_(0, arcs.ids, known_ad.add_(way_ad))
        for slot in arcs.slots:
            nodes, ways = arcs.senders.index_select(0, slot), way_ad.index_select(0, slot)
            yield torch.zeros_like(x_nd).index_copy_(0, nodes, ways)

    def tensors(self, x_nd: Tensor) -> dict[str, Tensor]:
        """What a checkpoint holds besides the models, by name.

        Args:
            x_nd: The models.

        """
        if self.wire.coordinates is not None:
            return {}
        if self._residue_nd is None:
            self._residue_nd = torch.zeros_like(x_nd)
        known = {"wire.residue": self._residue_nd}
        return {**known, "wire.copies": self._copies(x_nd)} if self.wire.links else known

    def restore(self, tensors: Mapping[str, Tensor], x_nd: Tensor, rounds: int) -> None:
        """Continue from what `tensors` has returned after so many rounds.

        Where a checkpoint does not hold it, all links begin anew, with whole vectors: the average
        over nodes is that of the models.
        """
        own = self.tensors(x_nd)
        complete = own.keys() <= tensors.keys()
        for name, tensor in own.items():
            tensor.copy_(tensors[name]) if complete else tensor.zero_()
        if self._links is not None:
            self._used[:] = self._links.used_by(rounds) if complete else False

    def _copies(self, x_nd: Tensor) -> Tensor:
        if self._copies_ad is None:
            assert self._links is not None
            self._copies_ad = x_nd.new_zeros(self._links.count, x_nd.shape[1])
        return self._copies_ad

    def _heard(self, r: Round) -> tuple[Tensor, Tensor]:
        peers, weights = peers_of(r)
        return self._on_device(peers), self._on_device(weights).to(self._dtype)

    def _arcs_of(self, index: int) -> _Arcs:
        assert self._links is not None
        r = self._topology.round(index)
        ids = self._links.of(index)
        arcs = list(zip(r.senders.tolist(), r.receivers.tolist(), strict=True))
        places = {arc: place for place, arc in enumerate(arcs)}
        back = [places[receiver, sender] for sender, receiver in arcs]
        order = np.argsort(r.senders, kind="stable")
        sent = np.bincount(r.senders, minlength=r.n)
        rank = np.arange(len(arcs)) - np.repeat(np.cumsum(sent) - sent, sent)
        return _Arcs(
            self._on_device(ids),
            self._on_device(r.senders),
            self._on_device(back),
            self._on_device(r.weights).to(self._dtype),
            [self._on_device(order[rank == slot]) for slot in range(sent.max())],
        )

    def _on_device(self, array: object) -> Tensor:
        return torch.tensor(array, device=self._device)


class _Arcs(NamedTuple):
    """The arcs of a round."""

    ids: Tensor
    """Their rows in the table of copies."""
    senders: Tensor
    back: Tensor
    """Which arc of the round goes the other way."""
    weights: Tensor
    slots: list[Tensor]
    """The first arc of every node, the second of those that have two, and so on: ways are added one
    by one, so that nothing that rounding loses goes unseen."""
