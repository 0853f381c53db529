"""Rounds of two vectors per node as tables: the round of every step of an epoch.

The nodes of several runs stand beside each other: N = runs · n nodes. A round is whom every node
hears, (N,), the two weights of what it hears, (N, 2), and whether its vectors change places,
(N, 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from basegraph.topologies.core.phases import PerPhase
from basegraph.topologies.two_states.exchange import PairRound, pair_round
from basegraph.topologies.two_states.sequence import TwoStateSequence


class TwoStateTables:
    """Tables of the rounds of some two-state topologies with n nodes each.

    Args:
        topologies: One per run.

    """

    def __init__(self, topologies: Sequence[TwoStateSequence]) -> None:
        self.n = topologies[0].n
        self._entries = [self._entries_of(t) for t in topologies]
        self._local = PairRound(np.arange(self.n), np.zeros((self.n, 2)), False)

    def of(self, numbers: list[list[int | None]]) -> dict[str, Tensor]:
        """Tables for the rounds numbers[step][run], in main memory; None: no node communicates."""
        entries = [
            [
                self._local if number is None else entry(number)
                for entry, number in zip(self._entries, step, strict=True)
            ]
            for step in numbers
        ]
        peers = np.array(
            [
                np.concatenate([entry.peers + run * self.n for run, entry in enumerate(step)])
                for step in entries
            ]
        )
        weights = np.array([np.concatenate([entry.weights for entry in step]) for step in entries])
        swaps = np.array([np.repeat([entry.swaps for entry in step], self.n) for step in entries])
        return {
            "peers": torch.as_tensor(peers),
            "weights": torch.as_tensor(weights, dtype=torch.float32),
            "swaps": torch.as_tensor(swaps)[..., None],
        }

    def mix(self, now: dict[str, Tensor]) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """The mix that one entry of the tables stands for."""
        peer_n, weight_n2, swap_n1 = now["peers"], now["weights"], now["swaps"]

        def mix(v_nd: Tensor, w_nd: Tensor) -> tuple[Tensor, Tensor]:
            heard_nd = v_nd.index_select(0, peer_n)
            sent = torch.lerp(v_nd, heard_nd, weight_n2[:, :1])
            other = torch.lerp(w_nd, heard_nd, weight_n2[:, 1:])
            return torch.where(swap_n1, other, sent), torch.where(swap_n1, sent, other)

        return mix

    def _entries_of(self, t: TwoStateSequence) -> PerPhase[PairRound]:
        return PerPhase(t, lambda index: pair_round(t, index))
