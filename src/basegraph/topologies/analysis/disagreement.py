"""What the length of a sequence does not say: how far nodes stay apart while they are trained.

Three diagnostics, not verdicts. Legend: n nodes, W_t the mixing matrix of step t, J = 11ᵀ/n.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least
from basegraph.topologies.core.random import generator
from basegraph.topologies.core.round import FloatArray
from basegraph.topologies.core.sequence import Sequence, Topology
from basegraph.topologies.two_states.sequence import refuse_two_states

DOUBLINGS = 60
"""Periods are composed so often, by squaring, before disagreement is called unbounded."""


USE = "disagreement is defined for n × n mixing matrices, as those of short; ask consensus_error"
"""The error message for two-state sequences."""


class PairWeights(NamedTuple):
    """The weights of the pairs that talk, over one period."""

    mean: float
    largest: Fraction


def pair_weights(topology: Sequence) -> PairWeights:
    """Mean and largest weight over all arcs of one period; 0 and 0 where no node talks.

    Args:
        topology: A topology with a period.

    Returns:
        The mean, and the largest as an exact fraction.

    Raises:
        InvalidArgument: If the topology has no period.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> pair_weights(topology("base", n=5))
        PairWeights(mean=0.53, largest=Fraction(4, 5))

    """
    rounds = list(_periodic(topology, otherwise=""))
    arcs = sum(len(r.receivers) for r in rounds)
    if not arcs:
        return PairWeights(0.0, Fraction(0))
    heaviest = [(r, int(np.argmax(r.weights))) for r in rounds if len(r.receivers)]
    largest = max(Fraction(int(r.numerators[e]), int(r.denominators[e])) for r, e in heaviest)
    return PairWeights(float(sum(r.weights.sum() for r in rounds) / arcs), largest)


def training_disagreement(
    topology: Topology,
    rho: float,
    momentum: float = 0.9,
    *,
    samples: int | None = None,
    steps: int = 2000,
    seed: int = 0,
) -> float:
    """D(ρ): how far nodes with different optima stay apart under momentum SGD of step size ρ.

    Node i pulls towards its own optimum b_i (mean zero over the nodes, variance one, independent):
    u ← βu + (x - b), x ← W_t (x - ρu). The steady state of each phase of the period is linear in
    b, x = A b, and D is the mean over the phases of ‖A‖² / n (Frobenius).

    One linear system of 2n unknowns, exact to rounding, for n up to a few hundred. With `samples`,
    a Monte-Carlo estimate instead, for any n and for random topologies.

    Args:
        topology: Which nodes talk when.
        rho: The step size ρ.
        momentum: The momentum β.
        samples: So many draws of b (signs ±1, centered); default: solve exactly.
        steps: How many rounds each draw is mixed for; the mean over the second half counts.
        seed: What the draws are made from.

    Returns:
        D(ρ): 0 if the nodes stay one, about 1 if they never talk. Infinite where no steady state
        exists because the step size is too large for this topology, that is where the spectral
        radius of one period is at least 1 (a ring of 25 nodes: from ρ = 0.405 on). With `samples`
        one more draw decides: what it starts from must be smaller after `steps` rounds.

    Raises:
        InvalidArgument: If a number is out of range, or the topology has no period and no samples
            are asked for.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> round(training_disagreement(topology("base", n=25), 0.05), 3)
        0.212

    """
    if not isinstance(rho, Real) or not 0 < rho < inf:
        raise InvalidArgument("rho", rho, "must be a number above 0")
    if not isinstance(momentum, Real) or not 0 <= momentum < 1:
        raise InvalidArgument("momentum", momentum, "must be a number in [0, 1)")

    def step(matrix: Any, state: FloatArray, pull: FloatArray | float) -> FloatArray:
        """State (2, n, columns): x and u."""
        x, u = state
        u = momentum * u + x - pull
        return np.stack([matrix @ (x - rho * u), u])

    if samples is not None:
        optima = _signs(topology.n, at_least(1, samples=samples), seed)
        if not _forgets(topology, steps, seed, lambda matrix, s: step(matrix, s, 0.0)):
            return inf
        zero = np.zeros((2, *optima.shape))
        return _simulated(topology, zero, steps, lambda matrix, s: step(matrix, s, optima))
    matrices = [r.matrix() for r in _periodic(topology)]
    n = topology.n
    optima = np.eye(n) - 1 / n
    period: Any = np.eye(2 * n).reshape(2, n, 2 * n)
    forced = np.zeros((2, n, n))
    for matrix in matrices:
        period, forced = step(matrix, period, 0.0), step(matrix, forced, optima)
    if not _settles(period.reshape(2 * n, 2 * n)):
        return inf
    steady = np.linalg.solve(np.eye(2 * n) - period.reshape(2 * n, 2 * n), forced.reshape(2 * n, n))
    state: Any = steady.reshape(2, n, n)
    total = 0.0
    for matrix in matrices:
        state = step(matrix, state, optima)
        total += float((state[0] ** 2).sum())
    return total / (n * len(matrices))


def noise_disagreement(
    topology: Topology, *, samples: int | None = None, steps: int = 2000, seed: int = 0
) -> float:
    """How far nodes stay apart when each adds independent noise of variance one before every round.

    The mean over the phases of tr C / n in the steady state of C ← W (C + I - J) Wᵀ. Exact to
    rounding for n up to a few hundred; with `samples`, a Monte-Carlo estimate as for
    `training_disagreement`. That starts from agreement and comes out too small where forgetting
    takes more than steps / 2 rounds: a ring takes some n² of them (`diagnose` gives no estimate
    then).

    Args:
        topology: Which nodes talk when.
        samples: How many draws of the noise; default: solve exactly.
        steps: How many rounds each draw is mixed for; the mean over the second half counts.
        seed: What the draws are made from.

    Returns:
        The variance among the nodes; infinite where the topology does not connect them.

    Raises:
        InvalidArgument: If a number is out of range, or the topology has no period and no samples
            are asked for.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> round(noise_disagreement(topology("base", n=25)), 2)
        1.09

    """
    n = topology.n
    if samples is not None:
        random = generator(at_least(0, seed=seed))
        shape = n, at_least(1, samples=samples)

        def shaken(matrix: Any, state: FloatArray) -> FloatArray:
            noise = random.standard_normal(shape)
            return np.stack([matrix @ (state[0] + noise - noise.mean(axis=0))])

        return _simulated(topology, np.zeros((1, *shape)), steps, shaken)
    matrices = [r.matrix() for r in _periodic(topology)]
    centered = np.eye(n) - 1 / n
    period, steady = centered, np.zeros((n, n))
    for matrix in matrices:
        period = matrix @ period
        steady = _both_sides(matrix, steady + centered)
    for _ in range(DOUBLINGS):  # C = Q + ΦQΦᵀ + Φ²QΦ²ᵀ + ...
        if np.linalg.norm(period) < 1e-12:
            break
        steady = steady + period @ steady @ period.T
        period = period @ period
    else:
        return inf
    total = 0.0
    for matrix in matrices:
        steady = _both_sides(matrix, steady + centered)
        total += max(0.0, float(np.trace(steady)))  # rounding may leave it below
    return total / (n * len(matrices))


def _settles(period: FloatArray) -> bool:
    """Whether the spectral radius of one period is below 1.

    Some power of the period then has a norm below 1, which squaring finds quickly; where it does
    not, the eigenvalues decide.
    """
    power = period
    for _ in range(12):
        if not np.abs(power).max() < 1e100:  # whose norm, or square, might be infinite
            break
        if np.linalg.norm(power) < 1:
            return True
        power = power @ power
    return bool(np.abs(np.linalg.eigvals(period)).max() < 1)


def _forgets(
    topology: Topology, steps: int, seed: int, step: Callable[[Any, FloatArray], FloatArray]
) -> bool:
    """Whether a random start without any pull is smaller after so many steps."""
    state = start = generator(at_least(0, seed=seed)).standard_normal((2, topology.n, 1))
    matrix_at = _matrices(topology)
    for t in range(at_least(2, steps=steps)):
        state = step(matrix_at(t), state)
        if not np.abs(state).max() < 1e100:
            return False
    return bool(np.linalg.norm(state) < np.linalg.norm(start))


def _matrices(topology: Topology) -> Callable[[int], Any]:
    """Step -> mixing matrix; those of one period are made once."""
    refuse_two_states("topology", topology, USE)
    period = topology.period
    if not period:
        return lambda t: topology.round(t).matrix()
    known = [topology.round(t).matrix() for t in range(period)]
    return lambda t: known[t % period]


def _both_sides(matrix: Any, covariance: FloatArray) -> FloatArray:
    once: FloatArray = matrix @ covariance
    return np.asarray(matrix @ once.T)


def _periodic(topology: Topology, otherwise: str = "; or ask for samples") -> Sequence:
    refuse_two_states("topology", topology, USE)
    if not isinstance(topology, Sequence):
        raise InvalidArgument("topology", topology, f"must have a period{otherwise}")
    return topology


def _signs(n: int, samples: int, seed: int) -> FloatArray:
    """(n, samples) signs, centered over the nodes, with the expected sum of squares n - 1 each."""
    random = generator(at_least(0, seed=seed))
    signs = random.integers(0, 2, size=(n, samples)) * 2.0 - 1
    return np.asarray(signs - signs.mean(axis=0))


def _simulated(
    topology: Topology,
    state: FloatArray,
    steps: int,
    step: Callable[[Any, FloatArray], FloatArray],
) -> float:
    """The mean square of x over nodes, samples and the second half of the steps."""
    steps = at_least(2, steps=steps)
    period = topology.period
    matrix_at = _matrices(topology)
    first = steps // 2
    if period and steps >= 2 * period:
        first = steps - first // period * period  # whole periods
    total = 0.0
    for t in range(steps):
        state = step(matrix_at(t), state)
        if t >= first:
            total += float((state[0] ** 2).mean())
    return total / (steps - first)
