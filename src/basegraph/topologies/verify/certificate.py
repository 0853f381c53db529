"""`verify`: the proof that a sequence is what it claims to be, and its certificate."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2
from typing import Any

from basegraph.errors import InvalidArgument, NotFiniteTime
from basegraph.topologies.core.integers import at_least
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Sequence, Topology
from basegraph.topologies.two_states.round import TwoStateRound
from basegraph.topologies.two_states.sequence import TWO_VECTORS, TwoStateSequence
from basegraph.topologies.verify.exact import prove_product
from basegraph.topologies.verify.modular import check_product, trials_for
from basegraph.topologies.verify.rounds import check_rounds
from basegraph.topologies.verify.two_states import (
    check_two_state_product,
    check_two_state_rounds,
    prove_two_state_product,
)

EXACT_WORK = 4e12
"""Bits that `method="auto"` is willing to move for an exact product: about a minute."""


@dataclass(frozen=True)
class Certificate:
    """What `verify` has shown, and how."""

    spec: str
    n: int
    period: int
    max_degree: int
    """As measured over all rounds."""
    symmetric: bool
    arcs: int
    """In one period, all rounds together; messages, where there are two vectors per node."""
    method: str
    error_probability: Fraction
    """That the product is wrong and went unnoticed: 0 for an exact proof."""
    trials: int
    seed: int | None
    vectors_per_node: int = 1
    """2 for a two-state sequence: the product is that of 2n × 2n maps, and x ends as J/n x."""

    def __str__(self) -> str:
        how = (
            "exact integer product"
            if self.method == "exact"
            else f"Freivalds, {self.trials} trials modulo random primes, seed {self.seed}, "
            f"error ≤ 2^{ceil(log2(self.error_probability))}"
        )
        rounds = f"{self.spec}, n={self.n}: {self.period} rounds of degree ≤ {self.max_degree}"
        if self.vectors_per_node == 2:
            return (
                f"{rounds}, {TWO_VECTORS}, multiply to x ← J/n x, whatever y was "
                f"(2n × 2n maps, {how})"
            )
        return f"{rounds} multiply to J/n ({how})"


def verify(
    topology: Topology | TwoStateSequence | Iterable[Round] | Iterable[TwoStateRound],
    *,
    method: str = "auto",
    seed: int | None = None,
) -> Certificate:
    """Prove that one period of a topology, or a list of rounds, gives every node the exact average.

    With two vectors per node, x and y, it is proved for x, whatever the y were at the start.

    Args:
        topology: What to prove it for.
        method: "exact", "freivalds", or "auto": the exact proof where it costs up to a minute or
            so (n in the tens of thousands for one neighbor a round), the Freivalds check beyond.
        seed: What the Freivalds check draws its primes from; by default a fresh, unpredictable
            one. The certificate names it.

    Returns:
        What was shown, and how.

    Raises:
        InvalidRound: If a round is not what it must be; names the round, the nodes and the values.
        NotFiniteTime: If the product of one period is not J/n; names nodes and values.
        InvalidArgument: If an argument is out of range.

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> print(verify(topology("base", n=25)))
        base:k=1, n=25: 9 rounds of degree ≤ 1 multiply to J/n (exact integer product)
        >>> verify(topology("ceca", n=25)).vectors_per_node
        2
        >>> verify(topology("ring", n=5))
        Traceback (most recent call last):
            ...
        basegraph.errors.NotFiniteTime: ring, n=5: after one period node 0 holds 1/3 of ...

    """
    if method not in ("auto", "exact", "freivalds"):
        raise InvalidArgument("method", method, "must be 'auto', 'exact' or 'freivalds'")
    seed = secrets.randbits(63) if seed is None else at_least(0, below=2**64, seed=seed)
    sequence = _as_topology(topology)
    period = sequence.period
    if period is None:
        raise NotFiniteTime(f"{sequence.spec}: a random topology has no period to multiply")
    two = isinstance(sequence, TwoStateSequence)
    facts = check_two_state_rounds(sequence) if two else check_rounds(sequence)
    bits = (sequence.n * facts.scale).bit_length() + 1
    slots = 2 * sequence.n if two else sequence.n
    if method == "auto":
        work = (facts.arcs + slots * period) * slots * bits
        method = "exact" if work <= EXACT_WORK else "freivalds"
    error, trials = Fraction(0), 0
    if method == "freivalds":
        error, trials = trials_for(bits)
    if two:
        if method == "exact":
            prove_two_state_product(sequence, facts.scale, bits)
        else:
            check_two_state_product(sequence, facts.scale, trials, seed)
    elif method == "exact":
        prove_product(sequence, period, facts.scale, bits)
    else:
        check_product(sequence, period, facts.scale, trials, seed)
    return Certificate(
        spec=sequence.spec,
        n=sequence.n,
        period=period,
        max_degree=facts.max_degree,
        symmetric=sequence.symmetric,
        arcs=facts.arcs,
        method=method,
        error_probability=error,
        trials=trials,
        seed=seed if trials else None,
        vectors_per_node=2 if two else 1,
    )


def _as_topology(given: Any) -> Any:
    """The topology, or the one of these rounds."""
    if isinstance(given, Topology | TwoStateSequence):
        return given
    if isinstance(given, str):
        raise InvalidArgument("topology", given, "must be a topology: bg.topology makes one")
    try:
        rounds = list(given)
    except TypeError:
        raise InvalidArgument("topology", given, "must be a topology or several rounds") from None
    two_states = bool(rounds) and all(isinstance(r, TwoStateRound) for r in rounds)
    return TwoStateSequence(rounds) if two_states else Sequence(rounds)
