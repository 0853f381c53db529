"""How fast a topology brings nodes to consensus: its rate, its delay, whether it is exact."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.random import generator
from basegraph.topologies.core.round import FloatArray, Round
from basegraph.topologies.core.sequence import Sequence, Topology
from basegraph.topologies.two_states.sequence import TwoStateSequence, refuse_two_states

ROUNDING = 1e-14
"""What rounding leaves of a vector at most."""
DENSE_NODES = 256
"""Up to this many nodes a dense singular value decomposition is quickest and simplest."""


def consensus_rate(topology: Topology | Round) -> float:
    """β of Definition 1: how much one period shrinks disagreement at the least.

    The smallest β with ‖WX - X̄‖ ≤ β ‖X - X̄‖ for all X, that is the largest singular value of W
    on the vectors of mean zero, where W is the round's matrix or the product of one period's. A
    sequence of finite-time convergence has β = 0 to rounding; take β ** (1 / period) for the rate
    of one step. No n×n matrix is made for n above a few hundred.

    Args:
        topology: A topology with a period, or one round.

    Returns:
        β, between 0 and 1.

    Raises:
        InvalidArgument: If the topology has no period.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> round(consensus_rate(topology("ring", n=25)), 6)
        0.979055
        >>> consensus_rate(topology("base", n=25)) < 1e-15
        True

    """
    refuse_two_states("topology", topology, "it has no mixing matrices; ask consensus_error")
    if isinstance(topology, Round):
        rounds = [topology]
    elif isinstance(topology, Sequence):
        rounds = list(topology)
    else:
        raise InvalidArgument("topology", topology, "must have a period to have a consensus rate")
    matrices: list[Any] = [r.matrix() for r in rounds]
    n = rounds[0].n
    if n <= DENSE_NODES:
        product = np.eye(n) - 1 / n
        for matrix in matrices:
            product = matrix @ product
        return float(np.linalg.norm(product, 2))
    return _largest_singular_value(matrices, n)


def consensus_delay(topology: Topology | Round) -> float:
    """τ/p: rounds per consensus, what DSGD's convergence rate depends on.

    τ is the period and p the share of the squared disagreement ‖X - X̄‖² that one period removes at
    the least, 1 - β² with β of `consensus_rate` (Koloskova et al. 2020). It is the period where
    the average is reached exactly, and infinite where nothing need be removed.

    Args:
        topology: A topology with a period, or one round.

    Returns:
        The delay in rounds, at least the period.

    Raises:
        InvalidArgument: If the topology has no period.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> [round(consensus_delay(topology(name, n=25)), 2) for name in ("base", "ring")]
        [9.0, 24.13]

    """
    rate = consensus_rate(topology)
    period = 1 if isinstance(topology, Round) else topology.period
    assert period is not None  # or there would be no rate
    return period / (1 - rate**2) if rate < 1 else inf


def _largest_singular_value(matrices: list[Any], n: int) -> float:
    from scipy.sparse.linalg import LinearOperator, eigsh

    def centered(x: FloatArray) -> FloatArray:
        return x - x.mean()

    def forward(x: FloatArray) -> FloatArray:
        x = centered(x.ravel())
        for matrix in matrices:
            x = matrix @ x
        return centered(x)

    def forward_and_back(x: FloatArray) -> FloatArray:
        x = forward(x)
        for matrix in reversed(matrices):
            x = matrix.T @ x
        return centered(x)

    start = centered(generator(0).standard_normal(n))
    if np.linalg.norm(forward(start)) <= ROUNDING * np.linalg.norm(start):
        return 0.0  # nothing but rounding is left
    operator = LinearOperator((n, n), matvec=forward_and_back, dtype=np.float64)
    # A wide Krylov space: on a long ring many singular values crowd below one.
    (largest,) = eigsh(
        operator, k=1, which="LA", v0=start, ncv=min(n, 64), return_eigenvectors=False
    )
    return float(np.sqrt(max(largest, 0.0)))


def reaches_average(topology: Sequence | TwoStateSequence) -> bool:
    """Whether one period leaves nothing of a disagreement but rounding; `verify` is the proof.

    Args:
        topology: A topology with a period. With two vectors per node, the disagreement of x.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> [reaches_average(topology(name, n=25)) for name in ("base", "one-peer-exponential")]
        [True, False]

    """
    start = generator(0).standard_normal(topology.n)
    x: FloatArray = start - start.mean()
    if isinstance(topology, TwoStateSequence):
        x = np.concatenate([x, generator(1).standard_normal(topology.n)])
    for r in topology:
        x = r.matrix() @ x
    x = x[: topology.n]
    return bool(np.linalg.norm(x - x.mean()) <= ROUNDING * np.linalg.norm(start))
