"""Numbers that describe a topology: consensus rate, length bounds, bytes."""

from __future__ import annotations

import hashlib
from math import inf
from typing import Any, NamedTuple

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least, ceil_log, floor_log
from basegraph.topologies.core.round import FloatArray, Round
from basegraph.topologies.core.sequence import Sequence, Topology

ROUNDING = 1e-14
"""What rounding leaves of a vector at most."""
SMALL = 256
"""Up to this many nodes a dense singular value decomposition is quickest and simplest."""


def consensus_rate(topology: Topology | Round) -> float:
    """β of Definition 1: how much one period shrinks disagreement at the least.

    The smallest β with ‖WX - X̄‖ ≤ β ‖X - X̄‖ for all X, that is the largest singular value of W
    on the vectors of mean zero, where W is the round's matrix or the product of one period's. A
    sequence of finite-time convergence has β = 0 to rounding; take β ** (1 / period) for the rate
    of one step. No n×n matrix is made for n above a few hundred.

    >>> from basegraph.topologies.catalog import topology
    >>> round(consensus_rate(topology("ring", n=25)), 6)
    0.979055
    >>> consensus_rate(topology("base", n=25)) < 1e-15
    True
    """
    if isinstance(topology, Round):
        rounds = [topology]
    elif isinstance(topology, Sequence):
        rounds = list(topology)
    else:
        raise InvalidArgument("topology", topology, "must have a period to have a consensus rate")
    matrices: list[Any] = [r.matrix() for r in rounds]
    n = rounds[0].n
    if n <= SMALL:
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

    def there(x: FloatArray) -> FloatArray:
        x = centered(x.ravel())
        for matrix in matrices:
            x = matrix @ x
        return centered(x)

    def there_and_back(x: FloatArray) -> FloatArray:
        x = there(x)
        for matrix in reversed(matrices):
            x = matrix.T @ x
        return centered(x)

    start = centered(np.random.Generator(np.random.Philox(key=0)).standard_normal(n))
    if np.linalg.norm(there(start)) <= ROUNDING * np.linalg.norm(start):
        return 0.0  # nothing but rounding is left
    operator = LinearOperator((n, n), matvec=there_and_back, dtype=np.float64)
    # A wide Krylov space: on a long ring many singular values crowd below one.
    (largest,) = eigsh(
        operator, k=1, which="LA", v0=start, ncv=min(n, 64), return_eigenvectors=False
    )
    return float(np.sqrt(max(largest, 0.0)))


def reaches_average(topology: Sequence) -> bool:
    """Whether one period leaves nothing of a disagreement but rounding; `verify` is the proof.

    >>> from basegraph.topologies.catalog import topology
    >>> [reaches_average(topology(name, n=25)) for name in ("base", "one-peer-exponential")]
    [True, False]
    """
    start = np.random.Generator(np.random.Philox(key=0)).standard_normal(topology.n)
    x: FloatArray = start - start.mean()
    for r in topology:
        x = r.matrix() @ x
    return bool(np.linalg.norm(x - x.mean()) <= ROUNDING * np.linalg.norm(start))


def digest(topology: Topology, rounds: int = 64) -> str:
    """A checksum of all arcs and weights of a period, or of so many rounds of a random topology.

    >>> from basegraph.topologies.catalog import topology
    >>> digest(topology("base", n=4)) == digest(topology("one-peer-hypercube", n=4))
    True
    """
    whole = hashlib.sha256()
    for step in range(topology.period or rounds):
        r = topology.round(step)
        for part in (r.receivers, r.senders, r.numerators, r.denominators):
            whole.update(np.ascontiguousarray(part).data)
    return whole.hexdigest()


def shortest_possible(n: int, k: int) -> int:
    """A lower bound on the rounds of any sequence of degree k that reaches exact consensus.

    What a node holds can come from at most (k+1)^m nodes after m rounds, so m ≥ log_{k+1} n. With
    k = 1 and odd n someone idles in the last round and must hold the average before it: one more.

    >>> [shortest_possible(n, 1) for n in (1, 2, 3, 4, 5, 25)]
    [0, 1, 3, 2, 4, 6]
    """
    n, k = at_least(1, n=n), at_least(1, k=k)
    return ceil_log(n, k + 1) + (k == 1 and n % 2 == 1 and n > 1)


def theorem_1_length(n: int, k: int) -> int:
    """Theorem 1 of the paper: (simple-)base has at most floor(2 log_{k+1}(n) + 2) rounds.

    >>> theorem_1_length(25, 1)
    11
    """
    n, k = at_least(1, n=n), at_least(1, k=k)
    return floor_log(n * n, k + 1) + 2


class Traffic(NamedTuple):
    """Bytes a node sends."""

    busiest: int
    """The most any node sends in any one round."""
    mean: float
    """In one round, over all nodes and all rounds of a period."""
    period: int
    """The most any node sends in a whole period."""


def bytes_per_round(topology: Sequence, parameters: int, itemsize: int = 4) -> Traffic:
    """What a node sends in one round when a model of `parameters` numbers is mixed.

    >>> from basegraph.topologies.catalog import topology
    >>> bytes_per_round(topology("ring", n=25), parameters=1000)
    Traffic(busiest=8000, mean=8000.0, period=8000)
    """
    if not isinstance(topology, Sequence):
        raise InvalidArgument("topology", topology, "must have a period to count its bytes")
    parameters, itemsize = at_least(0, parameters=parameters), at_least(1, itemsize=itemsize)
    sent = [np.bincount(r.senders, minlength=r.n) for r in topology]
    message = parameters * itemsize
    return Traffic(
        busiest=message * max(int(counts.max()) for counts in sent),
        mean=message * float(np.mean([counts.mean() for counts in sent])),
        period=message * int(np.sum(sent, axis=0).max()),
    )
