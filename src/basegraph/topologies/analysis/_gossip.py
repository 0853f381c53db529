"""Gossip averaging: what repeated mixing does to the nodes' values.

Shape legend: x is (n,) or (n, d), one row per node. A round costs O(arcs × d): one product with a
sparse matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.closed_form import refuse_beyond_memory
from basegraph.topologies.core.integers import at_least
from basegraph.topologies.core.phases import PerPhase
from basegraph.topologies.core.random import generator
from basegraph.topologies.core.round import FloatArray
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.sequence import TwoStateSequence

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FLOOR = 1e-28
"""Below this, an error that began near 1 in float64 is rounding: consensus is exact."""
KEPT_ENTRIES = 2**25
"""Matrices of a whole period are kept for the next one up to this many entries (half a GiB)."""


def consensus_error(
    topology: Topology | TwoStateSequence, x0: NDArray[Any], steps: int
) -> FloatArray:
    """The disagreement (1/n) Σ_i |x_i - mean|² before each of `steps` rounds and after the last.

    Args:
        topology: Which nodes talk when. With two vectors per node, the disagreement is that of x.
        x0: The nodes' values, (n,) or (n, d), float32 or float64; the arithmetic is done in its
            type.
        steps: How many rounds.

    Returns:
        float64 of length steps + 1.

    Raises:
        InvalidArgument: If x0 does not fit the topology or is not finite, or steps is negative.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> consensus_error(topology("base", n=4), np.array([4.0, 0.0, 0.0, 0.0]), steps=2)
        array([3., 1., 0.])

    """
    steps = at_least(0, steps=steps)
    states = gossip(topology, x0)
    return np.array([disagreement(next(states)) for _ in range(steps + 1)])


def gossip(topology: Topology | TwoStateSequence, x0: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The nodes' values before step 0, 1, 2, ... without end, as read-only arrays.

    Args:
        topology: Which nodes talk when. With two vectors per node, the values are those of x.
        x0: The nodes' values, (n,) or (n, d), float32 or float64.

    Returns:
        An iterator; each item costs one round.

    Raises:
        InvalidArgument: If x0 does not fit the topology or is not finite.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> states = gossip(topology("base", n=4), np.array([4.0, 0.0, 0.0, 0.0]))
        >>> [next(states).tolist() for _ in range(3)]
        [[4.0, 0.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]

    """
    x = _checked(topology, x0)
    if isinstance(topology, TwoStateSequence):
        n, both = topology.n, np.concatenate([x, x])  # y begins as x: it does not matter
        return (state[:n] for state in _states(topology, both))
    return _states(topology, x)


def _states(topology: Topology | TwoStateSequence, x: NDArray[Any]) -> Iterator[NDArray[Any]]:
    def matrix(index: int) -> csr_array[Any, Any]:
        return topology.round(index).matrix(x.dtype)

    period = topology.period or 1
    matrices = PerPhase(topology, matrix, keep=lambda w: w.nnz * period <= KEPT_ENTRIES)
    for step in count():
        x.flags.writeable = False
        yield x
        x = matrices(step) @ x


def disagreement(x: NDArray[Any]) -> float:
    """(1/n) Σ_i |x_i - mean|², summed in float64.

    >>> disagreement(np.array([4.0, 0.0, 0.0, 0.0]))
    3.0
    """
    x = x.astype(np.float64, copy=False)
    return float(np.square(x - x.mean(axis=0)).sum() / len(x))


def gaussian_start(n: int, seed: int, d: int | None = None) -> FloatArray:
    """Independent standard Gaussians: the values that the paper's experiments start from.

    Args:
        n: Number of nodes.
        seed: What they are drawn from, below 2**64.
        d: Numbers per node; one each, without an axis, if None.

    Returns:
        float64, (n,) or (n, d).

    Raises:
        InvalidArgument: If the seed is out of range, or the memory does not hold the values.

    Example:
        >>> gaussian_start(4, seed=0, d=3).shape
        (4, 3)

    """
    random = generator(at_least(0, below=2**64, seed=seed))
    size = 8 * n * (d or 1)
    refuse_beyond_memory(n, size, f"the nodes' values take {size} bytes")
    return random.standard_normal(n if d is None else (n, d))


def _checked(topology: object, x0: NDArray[Any]) -> NDArray[Any]:
    if not isinstance(topology, Topology | TwoStateSequence):
        raise InvalidArgument("topology", topology, "must be a topology; bg.topology makes one")
    try:
        x = np.asarray(x0)
    except ValueError:
        raise InvalidArgument("x0", x0, "must be an array") from None
    if x.dtype.kind in "iu":
        x = x.astype(np.float64)
    if x.dtype not in (np.float32, np.float64):
        raise InvalidArgument("x0", f"array of {x.dtype}", "must be float32 or float64")
    n = topology.n
    if x.ndim not in (1, 2) or len(x) != n:
        raise InvalidArgument(
            "x0", f"array of shape {x.shape}", f"must have shape ({n},) or ({n}, d)"
        )
    if not np.isfinite(x).all():
        raise InvalidArgument("x0", "array", "must be finite: it holds NaN or infinity")
    return x.copy()
