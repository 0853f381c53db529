"""Mixing with all nodes in one process: one (n, d) tensor, one row per node.

Weights in float32 sum to one only up to rounding, and a sum that is always too large or too small
by the same 3e-8 moves the average of all nodes, step after step: methods that extrapolate from
earlier steps (D², exact diffusion) run away. So every form mixes differences, x + Σ_j w_j (x_j - x)
or the like: nodes that agree stay where they are, exactly, whatever the weights sum to.

Shape legend: x_nd nodes × numbers, peer_nk and weight_nk nodes × neighbors, w_nn the dense matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from basegraph.engines.stacked.peers import peers_of
from basegraph.topologies.core.phases import PerPhase
from basegraph.topologies.core.round import Round
from basegraph.topologies.two_states.exchange import pair_round
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence

MAX_DENSE_NODES = 512
"""Up to this many nodes a GPU is quickest with the dense matrix for several neighbors."""
GATHERED_ON_CPU = 12
"""A CPU gathers one neighbor in the time of so many columns of the dense matrix."""


class StackedMixer:
    """The rounds of a topology, ready on a device.

    Args:
        topology: Whose rounds they are; those of a period are kept.
        device: Where the nodes' vectors are.
        dtype: The type of their numbers.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> mixer = StackedMixer(topology("base", n=2), torch.device("cpu"), torch.float32)
        >>> mixer.round(0)(torch.tensor([[0.0], [1.0]])).tolist()
        [[0.5], [0.5]]

    """

    def __init__(self, topology: AnyTopology, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.dtype = dtype
        self._mixes = PerPhase(topology, lambda index: self._of(topology, index))

    def round(self, index: int) -> Callable[..., Any]:
        """The mix of round `index`: x_nd -> W x_nd, or (v_nd, w_nd) -> both of two vectors."""
        return self._mixes(index)

    def _of(self, topology: AnyTopology, index: int) -> Callable[..., Any]:
        if not isinstance(topology, TwoStateSequence):
            return self._prepare(topology.round(index))
        peers, weights, swaps = pair_round(topology, index)
        return two_vectors(self._tensor(peers), self._tensor(weights), swaps)

    def _prepare(self, r: Round) -> Callable[[Tensor], Tensor]:
        if r.degree == 0:
            return lambda x_nd: x_nd
        peers, weights = peers_of(r)
        if peers.shape[1] == 1:
            return one_neighbor(self._tensor(peers[:, 0]), self._tensor(weights))
        if self._gathers(*peers.shape):
            return few_neighbors(self._tensor(peers), self._tensor(weights))
        return dense(self._tensor(r.matrix().toarray()))

    def _gathers(self, nodes: int, neighbors: int) -> bool:
        if self.device.type == "cpu":
            return GATHERED_ON_CPU * neighbors <= nodes
        return gathers_on_gpu(nodes, neighbors)

    def _tensor(self, array: Any) -> Tensor:
        tensor = torch.tensor(array, device=self.device)
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor


def one_neighbor(peer_n: Tensor, weight_n1: Tensor) -> Callable[[Tensor], Tensor]:
    """Every node hears at most one other: x + w (x[peer] - x)."""
    return lambda x_nd: torch.lerp(x_nd, x_nd.index_select(0, peer_n), weight_n1)


def two_vectors(
    peer_n: Tensor, weight_n2: Tensor, swaps: bool
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Every node hears the first vector of one other, and moves both of its own towards it."""

    def mix(v_nd: Tensor, w_nd: Tensor) -> tuple[Tensor, Tensor]:
        heard_nd = v_nd.index_select(0, peer_n)
        moved = (
            torch.lerp(v_nd, heard_nd, weight_n2[:, :1]),
            torch.lerp(w_nd, heard_nd, weight_n2[:, 1:]),
        )
        return (moved[1], moved[0]) if swaps else moved

    return mix


def few_neighbors(peer_nk: Tensor, weight_nk: Tensor) -> Callable[[Tensor], Tensor]:
    """Every node hears several others: x + Σ_j w_j (x[peer_j] - x), a gather for each."""

    def mix(x_nd: Tensor) -> Tensor:
        def difference(slot: int) -> Tensor:
            return x_nd.index_select(0, peer_nk[:, slot]).sub_(x_nd)

        change_nd = difference(0).mul_(weight_nk[:, :1])
        for slot in range(1, peer_nk.shape[1]):
            change_nd.addcmul_(weight_nk[:, slot, None], difference(slot))
        return change_nd.add_(x_nd)

    return mix


def dense(w_nn: Tensor) -> Callable[[Tensor], Tensor]:
    """A product with the whole matrix, of differences from the first node: x₀ + W (x - x₀)."""

    def mix(x_nd: Tensor) -> Tensor:
        first_1d = x_nd[:1]
        return torch.mm(w_nn, x_nd - first_1d).add_(first_1d)

    return mix


def gathers_on_gpu(nodes: int, neighbors: int) -> bool:
    """Whether a GPU gathers several neighbors, each by a kernel, instead of a product."""
    return nodes > MAX_DENSE_NODES and 8 * neighbors <= nodes


def average(x_nd: Tensor) -> Tensor:
    """The exact average for every node: what all-reduce does."""
    return x_nd.mean(dim=0, keepdim=True).expand_as(x_nd)
