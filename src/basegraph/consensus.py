"""Gossip averaging: what repeated mixing does to the nodes' values.

Shape legend: x is (n,) or (n, d), one row per node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from basegraph.errors import InvalidArgument
from basegraph.topology.integers import at_least
from basegraph.topology.round import FloatArray, Round
from basegraph.topology.sequence import Topology


def consensus_error(topology: Topology, x0: NDArray[Any], steps: int) -> FloatArray:
    """The disagreement (1/n) Σ_i |x_i - mean|² before each of `steps` rounds and after the last.

    x0 is (n,) or (n, d), float32 or float64; the arithmetic is done in its type. Returns float64
    of length steps + 1.

    >>> from basegraph.topology.catalog import topology
    >>> consensus_error(topology("base", n=4), np.array([4.0, 0.0, 0.0, 0.0]), steps=2)
    array([3., 1., 0.])
    """
    x = _checked(topology, x0)
    steps = at_least(0, steps=steps)
    errors = [disagreement(x)]
    for step in range(steps):
        x = mix(topology.round(step), x)
        errors.append(disagreement(x))
    return np.array(errors)


def mix(r: Round, x: NDArray[Any]) -> NDArray[Any]:
    """W x for one round: cost proportional to arcs × d."""
    from scipy.sparse import csr_array

    first = np.zeros(r.n + 1, dtype=np.int64)
    np.cumsum(np.bincount(r.receivers, minlength=r.n), out=first[1:])
    off_diagonal = csr_array((r.weights.astype(x.dtype), r.senders, first), shape=(r.n, r.n))
    own = r.self_weights.astype(x.dtype)
    mixed: NDArray[Any] = off_diagonal @ x
    mixed += own.reshape(-1, *[1] * (x.ndim - 1)) * x
    return mixed


def disagreement(x: NDArray[Any]) -> float:
    """(1/n) Σ_i |x_i - mean|², summed in float64."""
    x = x.astype(np.float64, copy=False)
    return float(np.square(x - x.mean(axis=0)).sum() / len(x))


def _checked(topology: Topology, x0: NDArray[Any]) -> NDArray[Any]:
    x = np.asarray(x0)
    if x.dtype.kind in "iu":
        x = x.astype(np.float64)
    if x.dtype not in (np.float32, np.float64):
        raise InvalidArgument("x0", f"array of {x.dtype}", "must be float32 or float64")
    if x.ndim not in (1, 2) or len(x) != topology.n:
        n = topology.n
        raise InvalidArgument(
            "x0", f"array of shape {x.shape}", f"must be of shape ({n},) or ({n}, d)"
        )
    if not np.isfinite(x).all():
        raise InvalidArgument("x0", "array", "must be finite: it holds NaN or infinity")
    return x
