"""The diagnostics of a topology put together, as commands and tables show them."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from basegraph.topologies.analysis.disagreement import (
    PairWeights,
    noise_disagreement,
    pair_weights,
    training_disagreement,
)
from basegraph.topologies.core.random import generator
from basegraph.topologies.core.sequence import Sequence

STEP_SIZES = (0.05, 0.005)
"""The ρ of D(ρ): a large and a small step."""
EXACT_NODES = 300
"""Up to this many nodes the steady states are solved for; beyond, they are estimated."""
DRAWN = 2**14
"""Numbers mixed at once by an estimate: so many over n draws, at least two."""
STEPS = 400
"""Rounds of an estimate, whose second half counts (at least four periods). Training forgets the
first half whatever the topology: for both ρ the start shrinks by 10^-4 or more."""
FORGOTTEN = 0.01
"""Noise counts as settled if the first half leaves no direction more than this of its variance."""
AFFORDABLE = 1e9
"""What a command spends on an estimate without being asked, about a second: numbers mixed times
(20 + degree), which is how the measured cost grows."""

MEANINGS = {
    "D(ρ)": "training disagreement: how far apart momentum SGD (0.9) of step size ρ keeps nodes "
    "that pull towards different optima; 0 if they stay identical, about 1 if they never exchange",
    "noise": "noise disagreement: how far apart nodes stay when each adds noise of variance one "
    "before every round",
    "pair weight": "the weight that a node gives to a neighbor's value; above 1/2 parameters "
    "travel while momentum stays",
}
NO_STEADY_STATE = "infinite (no steady state)"
"""What tables show for D(ρ) where the step size ρ is too large for the topology."""
NO_VERDICT = (
    "None of these is a verdict: in our comparisons (docs/results), less disagreement went with "
    "higher accuracy where nodes held similar data; where they held different classes it did not, "
    "and exact topologies trained better."
)


class Diagnostics(NamedTuple):
    """What length and degree do not say about a periodic topology."""

    training: dict[float, float]
    """D(ρ) by ρ, momentum 0.9; infinite where there is no steady state."""
    noise: float | None
    """Infinite where nodes are not connected; None where an estimate does not settle in time."""
    weights: PairWeights
    samples: int | None
    """How many draws the estimates of D and noise are from; None: exact to rounding."""

    @property
    def how(self) -> str:
        """Exact or not, in words."""
        if self.samples is None:
            return "exact to rounding"
        return f"Monte-Carlo estimates from {self.samples} draws"

    def row(self) -> dict[str, float | str]:
        """As columns of a table."""
        columns: dict[str, float | str] = {
            f"D({rho:g})": d for rho, d in self.training_shown.items()
        }
        columns["noise"] = self.noise_shown
        columns["mean pair weight"] = self.weights.mean
        columns["largest pair weight"] = str(self.weights.largest)
        return columns

    @property
    def training_shown(self) -> dict[float, float | str]:
        """Training disagreement as tables show it: the number, or that no steady state exists."""
        return {rho: d if d < inf else NO_STEADY_STATE for rho, d in self.training.items()}

    @property
    def noise_shown(self) -> float | str:
        """Noise disagreement as tables show it: the number, or the reason why there is none."""
        if self.noise is None:
            return "not settled"
        return self.noise if self.noise < inf else "infinite"


def diagnose(topology: Sequence) -> Diagnostics:
    """Training and noise disagreement and pair weights: exact to 300 nodes, estimated beyond.

    Args:
        topology: A topology with a period.

    Returns:
        The diagnostics; `samples` says whether they are exact.

    Raises:
        InvalidArgument: If the topology has no period.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> base = diagnose(topology("base", n=25))
        >>> round(base.training[0.05], 3), round(base.noise, 2), base.weights.largest
        (0.212, 1.09, Fraction(8, 9))

    """
    weights = pair_weights(topology)
    if topology.n <= EXACT_NODES:
        training = {rho: training_disagreement(topology, rho) for rho in STEP_SIZES}
        return Diagnostics(training, noise_disagreement(topology), weights, None)
    samples, steps = _samples(topology.n), _steps(topology)
    training = {
        rho: training_disagreement(topology, rho, samples=samples, steps=steps)
        for rho in STEP_SIZES
    }
    noise = None
    if _left_over(topology, steps // 2) < FORGOTTEN:
        noise = noise_disagreement(topology, samples=samples, steps=steps)
    return Diagnostics(training, noise, weights, samples)


def is_quick(topology: Sequence) -> bool:
    """Whether `diagnose` takes about a second at most.

    Args:
        topology: A topology with a period.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> [is_quick(topology("base", n=n)) for n in (300, 1000, 10**6)]
        [True, True, False]

    """
    n = topology.n
    mixed = 3 * _steps(topology) * _samples(n) * n
    return n <= EXACT_NODES or mixed * (20 + topology.max_degree) <= AFFORDABLE


def _samples(n: int) -> int:
    return max(2, DRAWN // n)


def _steps(topology: Sequence) -> int:
    return max(STEPS, 4 * topology.period)


def _left_over(topology: Sequence, steps: int) -> float:
    """How much variance so many rounds leave in the slowest direction, or a little more.

    A random start has 1/n of its variance in each direction, so n times what is left of all.
    """
    x = generator(0).standard_normal((topology.n, 4))
    x -= x.mean(axis=0)
    start = float((x**2).sum())
    matrices = [r.matrix() for r in topology]
    for t in range(steps):
        x = matrices[t % len(matrices)] @ x
    return topology.n * float((x**2).sum()) / start
