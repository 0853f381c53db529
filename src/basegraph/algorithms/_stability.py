"""Is this method stable on this topology?

Without gradients a step is linear in (x, state), so one period is one matrix. Its spectral radius
on the disagreement space (every vector with mean zero over the nodes) says what becomes of
disagreement: it dies out if the radius is below one, and only then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from basegraph.algorithms.method import Method, Mix, PairMix, require_same_vectors
from basegraph.errors import BasegraphError
from basegraph.topologies.core.random import generator
from basegraph.topologies.core.round import FloatArray
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.exchange import PairRule, pair_round
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence

DENSE = 600
"""Up to this many unknowns the matrix is built; beyond, Arnoldi iteration finds the radius."""
SAMPLED = 64
"""Steps after which a topology without a period is judged, by its growth per step."""
SLACK = 1e-9
MOST_LOCAL_STEPS = 2**26
"""Steps between two messages that are counted: more give the same verdict, and less exactly."""


class Unstable(BasegraphError):
    """A method that blows up on a topology, whatever the learning rate."""


@dataclass(frozen=True)
class Stability:
    """What one period without gradients does to disagreement, as `stability` measures it."""

    radius: float
    """Factor by which disagreement grows or shrinks over `steps`, in the long run."""
    steps: int
    """One period (times the local steps), or the steps sampled of a random topology."""

    @property
    def stable(self) -> bool:
        """Whether disagreement dies out."""
        return self.radius < 1 - SLACK


def stability(method: Method, topology: AnyTopology, local_steps: int = 1) -> Stability:
    """The spectral radius of one period without gradients, on the disagreement space.

    Args:
        method: The method, with its options bound.
        topology: Which nodes talk when.
        local_steps: Steps of training for each round.

    Returns:
        The radius and how many steps it is for.

    Example:
        >>> from basegraph.algorithms.catalog import algorithm
        >>> from basegraph.topologies.catalog import topology
        >>> round(stability(algorithm("d2"), topology("base", n=25)).radius, 1)
        10.2
        >>> stability(algorithm("dsgdm"), topology("base", n=25)).stable
        True

    """
    if method.outer is not None and not method.linear:  # without gradients the outer one acts alone
        outer = stability(method.outer, topology)
        return Stability(outer.radius, outer.steps * local_steps)
    n = topology.n
    steps = (topology.period or SAMPLED) * local_steps
    if n == 1 or method.centralized or not method.linear:
        return Stability(0.0, steps)  # nothing to disagree about, or DSGD but for gradients
    require_same_vectors(method, topology)
    mixes = [_mix(topology, number) for number in range(steps // local_steps)]
    between_rounds = _local_steps_matrix(method, local_steps - 1)
    parts = len(between_rounds)

    def period(z: FloatArray) -> FloatArray:
        """(parts * n, columns): x and the state's vectors below each other, one period on."""
        blocks = z.reshape(parts, n, -1)
        blocks = blocks - blocks.mean(axis=1, keepdims=True)
        for mix in mixes:
            if local_steps > 1:
                blocks = np.tensordot(between_rounds, blocks, axes=1)
            blocks = _step(method, blocks, mix)
        return (blocks - blocks.mean(axis=1, keepdims=True)).reshape(z.shape)

    return Stability(_spectral_radius(period, parts * n), steps)


def require_stable(method: Method, topology: AnyTopology, local_steps: int = 1) -> None:
    """Refuse a method that is unstable on a topology.

    Args:
        method: The method, with its options bound.
        topology: Which nodes talk when.
        local_steps: Steps of training for each round.

    Raises:
        Unstable: If disagreement grows without any gradient; names what is stable instead.

    """
    verdict = stability(method, topology, local_steps)
    if not verdict.stable:
        raise Unstable(
            f"{method.name} is unstable on {topology.spec} with n={topology.n}: without any "
            f"gradient, {verdict.steps} steps multiply disagreement by {verdict.radius:.3g}. "
            f"{_stable_alternatives(topology, local_steps)}To train anyway, set allow_unstable"
        )


def largest_stable_damping(topology: Topology, local_steps: int = 1) -> float:
    """The largest τ, to two digits, for which D² with (1-τ) I + τ W is stable.

    Args:
        topology: Which nodes talk when.
        local_steps: Steps of training for each round.

    Raises:
        Unstable: If there is none of at least 0.01.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> largest_stable_damping(topology("ring", n=9))
        1.0

    """
    for share in (percent / 100 for percent in range(100, 0, -1)):
        if _is_stable("d2", topology, local_steps, damping=share):
            return share
    raise Unstable(
        f"d2 is unstable on {topology.spec} with n={topology.n} for any damping ≥ 0.01. "
        f"{_stable_alternatives(topology, local_steps)}".rstrip()
    )


def _stable_alternatives(topology: AnyTopology, local_steps: int) -> str:
    """What is stable here of the methods for heterogeneous data, as a sentence; or nothing."""
    if isinstance(topology, TwoStateSequence):
        return ""
    stable = [
        name
        for name in ("gradient-tracking", "qg-dsgdm")
        if _is_stable(name, topology, local_steps)
    ]
    for share in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01):
        if _is_stable("d2", topology, local_steps, damping=share):
            stable.append(f"d2 with damping={share}")
            break
    return f"Stable choices: {', '.join(stable)}. " if stable else ""


def _is_stable(name: str, topology: AnyTopology, local_steps: int, **options: object) -> bool:
    from basegraph.algorithms.catalog import algorithm

    return stability(algorithm(name, **options), topology, local_steps).stable


def _local_steps_matrix(method: Method, steps: int) -> FloatArray:
    """(parts, parts): what so many steps without a message do to a node's x and state."""
    parts = 1 + len(method.init(np.zeros((1, 1))))
    one = _step(method, np.eye(parts)[:, None], None)[:, 0]
    power: FloatArray = np.linalg.matrix_power(one, min(steps, MOST_LOCAL_STEPS))
    return power


def _mix(topology: AnyTopology, step: int) -> Mix | PairMix:
    """The mix of a step, on (n, columns)."""
    if not isinstance(topology, TwoStateSequence):
        mix: Mix = topology.round(step).matrix().__matmul__
        return mix
    peers, weights, swaps = pair_round(topology, step)

    def mix_two(v: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        rule = PairRule(None, weights[:, :1], weights[:, 1:], swaps)  # type: ignore[arg-type]
        return rule(v, w, v[peers])

    return mix_two


def _step(method: Method, blocks: FloatArray, mix: Mix | PairMix | None) -> FloatArray:
    """x and the state's vectors, (parts, n, columns), one step on."""
    kind = type(method.init(np.zeros((1, 1))))
    x, state = method.move(blocks[0], np.zeros_like(blocks[0]), kind(*blocks[1:]), 1.0, mix)
    return np.stack([x, *state])


def _spectral_radius(apply: Callable[[FloatArray], FloatArray], size: int) -> float:
    if size <= DENSE:
        return float(np.abs(np.linalg.eigvals(apply(np.eye(size)))).max())
    from scipy.sparse.linalg import LinearOperator, eigs

    start = generator(0).standard_normal(size)
    if np.linalg.norm(apply(apply(start[:, None]))) <= 1e-12 * np.linalg.norm(start):
        return 0.0  # finite-time: nothing but rounding is left
    operator = LinearOperator((size, size), matvec=lambda z: apply(z.reshape(-1, 1)).ravel())
    values = eigs(operator, k=4, v0=start, return_eigenvectors=False, tol=1e-6)
    return float(np.abs(values).max())
