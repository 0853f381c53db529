"""Quadratics with a known solution, and a method run on them.

Node i has f_i(x) = |A_i (x - b_i)|² / 2; the minimizer of their mean is known.
"""

from __future__ import annotations

import numpy as np

import basegraph as bg
from basegraph.topologies.two_states import PairRule, TwoStateSequence, pair_round

D = 6


class Quadratics:
    """The objectives of n nodes, with `h` = A_i A_iᵀ and `b` by node."""

    def __init__(self, n, *, same_curvature=False, seed=0):
        random = np.random.default_rng(seed)
        factor = random.standard_normal((1 if same_curvature else n, D, D)) / 3 + np.eye(D)
        self.h = np.broadcast_to(factor @ factor.transpose(0, 2, 1), (n, D, D))
        self.b = random.standard_normal((n, D))
        self.solution = np.linalg.solve(
            self.h.mean(axis=0), np.einsum("nij,nj->i", self.h, self.b) / n
        )

    def gradients(self, x):
        return np.einsum("nij,nj->ni", self.h, x - self.b)


def mixes(t):
    """step -> mix, by the rounds of a topology."""
    if isinstance(t, TwoStateSequence):
        rounds = [pair_round(t, step) for step in range(t.period)]
        return lambda step: pair_mix(*rounds[step % len(rounds)])
    matrices = [r.matrix().toarray() for r in t]
    return lambda step: lambda v: matrices[step % len(matrices)] @ v


def pair_mix(peers, weights, swaps):
    """The mix of a round with two vectors per node."""
    rule = PairRule(None, weights[:, :1], weights[:, 1:], swaps)
    return lambda v, w: rule(v, w, v[peers])


def topology_of(method, spec, n):
    """The topology of this spec; `ceca` for a method whose nodes keep two vectors."""
    return bg.topology("ceca" if method.vectors == 2 else spec, n=n)


def average(v):
    return np.broadcast_to(v.mean(axis=0, keepdims=True), v.shape)


def run(method, problem, mix_at, steps, lr=0.05, x0=None):
    """The nodes' models after so many steps."""
    x = np.zeros_like(problem.b) if x0 is None else x0.copy()
    state = method.init(x)
    for step in range(steps):
        gradient = problem.gradients(method.gradient_point(x, state))
        mix = average if method.centralized else mix_at(step)
        x, state = method.step(x, gradient, state, lr, mix)
    return method.gradient_point(x, state)


def error(x, problem):
    return np.abs(x - problem.solution).max()
