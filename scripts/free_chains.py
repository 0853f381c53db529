"""Annealings over the middle rounds of block-mix, many at the same time, for search_free.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from free_candidates import Stage
from numpy.typing import NDArray

Array = NDArray[Any]

CHAINS = 3000
"""Annealings at the same time, times the number of nodes; at least 12."""


class Chains:
    """Annealings side by side. Axes: chain, then layer of pairs, then pair.

    Layers are orders of the nodes; number 2e and 2e + 1 of an order are pair e.
    """

    def __init__(self, rows: Stage, columns: Stage, k: int, middle: int, seed: int) -> None:
        self.random = np.random.Generator(np.random.Philox(key=seed))
        self.give = rows.conditions().T
        self.take = columns.conditions()
        self.n = len(self.give)
        self.two = middle == 2
        self.most = 1 / k
        self.layers = 2 if self.two else k
        self.pairs = self.n // 2
        self.chains = max(12, CHAINS // self.n)
        shape = self.chains, self.layers + 1, self.n
        self.orders = self.random.permuted(np.broadcast_to(np.arange(self.n), shape).copy(), axis=2)
        """The layers, and last which node stands at which place."""
        self.weights = np.full((self.chains, self.layers * self.pairs), self.most / 2)
        self.weights, self.left = self.solve(self.orders, self.weights)

    def parts(self, orders: Array) -> tuple[Array, ...]:
        """What the pairs' differences take and give: (chain, layer, pair, condition)."""
        place = np.argsort(orders[:, -1], axis=1)
        take = self.take[:, place].transpose(1, 2, 0)
        one = orders[:, :-1, 0 : 2 * self.pairs : 2]
        two = orders[:, :-1, 1 : 2 * self.pairs : 2]
        chain = np.arange(len(orders))[:, None, None]
        taken = take[chain, one] - take[chain, two]
        given = self.give[one] - self.give[two]
        whole = np.einsum("cna,nb->cab", take - take.mean(axis=1, keepdims=True), self.give)
        return one, two, taken, given, whole

    def residual(self, weights: Array, parts: tuple[Array, ...]) -> tuple[Array, Array]:
        """What is left, (chain, conditions), and how it changes with the weights."""
        one, two, taken, given, whole = parts
        chains = len(weights)
        w = weights.reshape(chains, self.layers, self.pairs)
        moved = np.einsum("clp,clpa,clpb->cab", w, taken, given)
        left = whole - moved
        if not self.two:
            slope = -taken[..., :, None] * given[..., None, :]
        else:
            # M2 M1 - I = -Σ w2 d d' - Σ w1 d d' + Σ Σ w2 w1 d (d' d) d'
            meet = (
                (one[:, 1, :, None] == one[:, 0, None, :]) * 1.0
                - (one[:, 1, :, None] == two[:, 0, None, :])
                - (two[:, 1, :, None] == one[:, 0, None, :])
                + (two[:, 1, :, None] == two[:, 0, None, :])
            )
            later = np.einsum("cef,cf,cfb->ceb", meet, w[:, 0], given[:, 0])
            earlier = np.einsum("cef,ce,cea->cfa", meet, w[:, 1], taken[:, 1])
            left = left + np.einsum("ce,cea,ceb->cab", w[:, 1], taken[:, 1], later)
            slope = np.stack(
                [
                    (earlier - taken[:, 0])[..., :, None] * given[:, 0][..., None, :],
                    taken[:, 1][..., :, None] * (later - given[:, 1])[..., None, :],
                ],
                axis=1,
            )
        return left.reshape(chains, -1), slope.reshape(chains, self.layers * self.pairs, -1)

    def solve(self, orders: Array, weights: Array, steps: int = 4) -> tuple[Array, Array]:
        """The weights between 0 and `most` that leave least, and the norm of what they leave."""
        parts = self.parts(orders)
        left, slope = self.residual(weights, parts)
        norm = np.linalg.norm(left, axis=1)
        damping = np.full(len(orders), 1e-3)
        unit = np.eye(weights.shape[1])
        for _ in range(steps):
            pull = np.einsum("cwr,cr->cw", slope, left)
            gram = slope @ slope.transpose(0, 2, 1)
            stuck = ((weights <= 0) & (pull > 0)) | ((weights >= self.most) & (pull < 0))
            gram += (damping[:, None] + 1e9 * stuck)[:, :, None] * unit
            change = np.linalg.solve(gram, -pull[:, :, None])[:, :, 0]
            trial = np.clip(weights + change, 0, self.most)
            trial_left, trial_slope = self.residual(trial, parts)
            trial_norm = np.linalg.norm(trial_left, axis=1)
            better = trial_norm < norm
            weights = np.where(better[:, None], trial, weights)
            left = np.where(better[:, None], trial_left, left)
            slope = np.where(better[:, None, None], trial_slope, slope)
            norm = np.where(better, trial_norm, norm)
            damping = np.where(better, damping * 0.1, damping * 8)
        return weights, norm

    def step(self, temperature: float) -> None:
        """One change in every chain: two nodes change roles in a layer, or places."""
        orders = self.orders.copy()
        chain = np.arange(self.chains)
        layer = self.random.integers(0, self.layers + 1, size=self.chains)
        one, two = self.random.integers(0, self.n, size=(2, self.chains))
        orders[chain, layer, one] = self.orders[chain, layer, two]
        orders[chain, layer, two] = self.orders[chain, layer, one]
        weights, norm = self.solve(orders, self.weights)
        threshold = self.left + temperature * self.random.standard_exponential(self.chains)
        taken = norm <= threshold
        self.orders[taken], self.weights[taken] = orders[taken], weights[taken]
        self.left = np.where(taken, norm, self.left)

    def restart(self, chains: Array) -> None:
        """Begin these chains again."""
        self.orders[chains] = self.random.permuted(self.orders[chains], axis=2)
        self.weights[chains] = self.most / 2
        self.weights[chains], self.left[chains] = self.solve(
            self.orders[chains], self.weights[chains]
        )
