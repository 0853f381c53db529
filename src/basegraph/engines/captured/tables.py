"""Rounds as tables: the round of every step of an epoch, for a graph that reads one of them.

The nodes of several runs stand beside each other: N = runs · n nodes. With few neighbors a round is
whom every node hears, (N, k) peers and weights; with many it is the dense matrices, (runs, n, n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from basegraph.engines.stacked.mixer import few_neighbors, gathers_on_gpu, one_neighbor
from basegraph.engines.stacked.peers import peers_of
from basegraph.topologies.core.phases import PerPhase
from basegraph.topologies.core.round import FloatArray, IntArray, Round
from basegraph.topologies.core.sequence import Topology

MAX_GATHERED = 4
"""Neighbors up to which gathering rows moves no more than a matrix product does."""


class RoundTables:
    """Tables of a form that fits all rounds of some topologies with n nodes each.

    Args:
        topologies: One per run.

    """

    def __init__(self, topologies: Sequence[Topology]) -> None:
        self.topologies = topologies
        self.n = topologies[0].n
        self.width = max(1, *(t.max_degree for t in topologies))
        self.gathers = self.width <= MAX_GATHERED or gathers_on_gpu(self.n, self.width)
        self._entries = [self._entries_of(t) for t in topologies]
        self._local = self._entry(None)

    def of(self, numbers: list[list[int | None]]) -> dict[str, Tensor]:
        """Tables for the rounds numbers[step][run], in main memory; None: no node communicates."""
        entries = [
            [
                self._local if number is None else entry(number)
                for entry, number in zip(self._entries, step, strict=True)
            ]
            for step in numbers
        ]
        peers = np.array([[p for p, _ in step] for step in entries])
        weights = np.array([[w for _, w in step] for step in entries])
        if not self.gathers:
            return {"matrices": torch.as_tensor(weights, dtype=torch.float32)}
        peers += self.n * np.arange(len(self.topologies))[:, None, None]
        flat = (len(numbers), -1, self.width)
        return {
            "peers": torch.as_tensor(peers.reshape(flat)),
            "weights": torch.as_tensor(weights.reshape(flat), dtype=torch.float32),
        }

    def mix(self, now: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
        """The mix that one entry of the tables stands for."""
        if not self.gathers:
            return lambda x_nd: self._dense(now["matrices"], x_nd)
        peers, weights = now["peers"], now["weights"]
        if self.width == 1:
            return one_neighbor(peers[:, 0], weights)
        return few_neighbors(peers, weights)

    def _dense(self, w_rnn: Tensor, x_nd: Tensor) -> Tensor:
        """As `stacked.mixer.dense`, for several runs beside each other."""
        x_rnd = x_nd.view(-1, self.n, x_nd.shape[1])
        first_r1d = x_rnd[:, :1]
        return (first_r1d + torch.bmm(w_rnn, x_rnd - first_r1d)).flatten(0, 1)

    def _entries_of(self, t: Topology) -> PerPhase[tuple[IntArray, FloatArray]]:
        return PerPhase(t, lambda index: self._entry(t.round(index)))

    def _entry(self, r: Round | None) -> tuple[IntArray, FloatArray]:
        return self._heard(r) if self.gathers else self._matrix(r)

    def _heard(self, r: Round | None) -> tuple[IntArray, FloatArray]:
        peers = np.repeat(np.arange(self.n)[:, None], self.width, axis=1)
        weights = np.zeros((self.n, self.width))
        if r is not None:
            known = peers_of(r)
            width = known.peers.shape[1]
            peers[:, :width], weights[:, :width] = known.peers, known.weights
        return peers, weights

    def _matrix(self, r: Round | None) -> tuple[IntArray, FloatArray]:
        matrix = np.eye(self.n) if r is None else r.matrix().toarray()
        return np.empty((0, 0), dtype=np.int64), matrix
