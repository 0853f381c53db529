"""Mixing with all nodes in one process: one (n, d) tensor, one row per node.

Shape legend: x_nd nodes × numbers, peer_nk and weight_nk nodes × neighbours, w_nn the dense matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from basegraph.mixing.plan import plan
from basegraph.topology.round import Round
from basegraph.topology.sequence import Topology

DENSE = 512
"""Up to this many nodes a round of several neighbours is one small dense matrix product."""


class StackedMixer:
    """The rounds of a topology, ready on a device."""

    def __init__(self, topology: Topology, device: torch.device, dtype: torch.dtype) -> None:
        self.topology = topology
        self.device = device
        self.dtype = dtype
        self._ready: dict[int, Callable[[Tensor], Tensor]] = {}

    def round(self, index: int) -> Callable[[Tensor], Tensor]:
        """The mix of round `index`: x_nd -> W x_nd."""
        period = self.topology.period
        if period is None:
            return self._prepare(self.topology.round(index))
        phase = index % period
        if phase not in self._ready:
            self._ready[phase] = self._prepare(self.topology.round(phase))
        return self._ready[phase]

    def _prepare(self, r: Round) -> Callable[[Tensor], Tensor]:
        if r.degree == 0:
            return lambda x_nd: x_nd
        peers, weights, own = plan(r)
        if peers.shape[1] == 1:
            return one_neighbour(self._tensor(peers[:, 0]), self._tensor(weights))
        if r.n <= DENSE or 8 * peers.shape[1] > r.n:
            return dense(self._tensor(r.matrix().toarray()))
        return few_neighbours(
            self._tensor(peers), self._tensor(weights), self._tensor(own[:, None])
        )

    def _tensor(self, array: Any) -> Tensor:
        tensor = torch.tensor(array, device=self.device)
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor


def one_neighbour(peer_n: Tensor, weight_n1: Tensor) -> Callable[[Tensor], Tensor]:
    """Every node hears at most one other: x + w (x[peer] - x)."""
    return lambda x_nd: torch.lerp(x_nd, x_nd.index_select(0, peer_n), weight_n1)


def few_neighbours(
    peer_nk: Tensor, weight_nk: Tensor, own_n1: Tensor
) -> Callable[[Tensor], Tensor]:
    """Several neighbours, many nodes: a gather for each."""

    def mix(x_nd: Tensor) -> Tensor:
        mixed = own_n1 * x_nd
        for peer_n, weight_n in zip(peer_nk.T, weight_nk.T, strict=True):
            mixed.addcmul_(weight_n[:, None], x_nd.index_select(0, peer_n))
        return mixed

    return mix


def dense(w_nn: Tensor) -> Callable[[Tensor], Tensor]:
    """A product with the whole matrix."""
    return lambda x_nd: w_nn @ x_nd


def average(x_nd: Tensor) -> Tensor:
    """The exact average for everyone: what all-reduce does."""
    return x_nd.mean(dim=0, keepdim=True).expand_as(x_nd)
