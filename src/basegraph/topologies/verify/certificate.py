"""The proof that a sequence is what it claims to be, without floating point.

Round by round: weights positive, doubly stochastic, symmetric where claimed, degree within the
claim. Then the period's product, W_m ... W_1 = J/n, in one of two ways:

*exact*: every round times its common denominator D_t is an integer matrix. Row i of the integer
product is packed into one Python integer, an entry every w bits with 2^w > n ∏ D_t, so that no
entry can spill into the next: a gossip round is then a few big-integer operations per node, and
the end is compared with ∏ D_t / n in every entry. No error is possible.

*freivalds*: the same integers modulo a random prime, applied to a random vector. Let M be the
integer matrix n ∏ D_t (W_m ... W_1 - J/n), whose entries are at most n ∏ D_t in size. If M ≠ 0, a
trial passes by mistake only if the prime divides a non-zero entry of M (it has fewer than
log2(n ∏ D_t) / 30 prime factors above 2^30, of the 50,697,537 primes between 2^30 and 2^31), or if
the random vector is in the kernel of M modulo the prime (probability below 2^-30). Independent
trials multiply; their number is chosen so that the error stays below 2^-60. Cost O(arcs) a trial.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import ceil, log2, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basegraph.errors import InvalidArgument, InvalidRound, NotFiniteTime
from basegraph.topologies.core.integers import at_least
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.core.sequence import Sequence, Topology

PRIMES_BETWEEN_2_30_AND_2_31 = 50_697_537
ERROR_EXPONENT = 60
EXACT_WORK = 4e12
"""Bits that `method="auto"` is willing to move for an exact product: about a minute."""
CHUNK_BITS = 2**28
"""How much of the product the exact proof holds at a time (some 2 to 4 times this in memory)."""


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
    """In one period, all rounds together."""
    method: str
    error_probability: Fraction
    """That the product is wrong and went unnoticed: 0 for an exact proof."""
    trials: int
    seed: int | None

    def __str__(self) -> str:
        how = (
            "exact integer product"
            if self.method == "exact"
            else f"Freivalds, {self.trials} trials modulo random primes, seed {self.seed}, "
            f"error ≤ 2^{ceil(log2(self.error_probability))}"
        )
        return (
            f"{self.spec}, n={self.n}: {self.period} rounds of degree ≤ {self.max_degree} "
            f"multiply to J/n ({how})"
        )


@dataclass(frozen=True)
class _Facts:
    """What the check of all rounds has measured."""

    max_degree: int
    arcs: int
    scale: int
    """∏ D_t"""


def verify(
    topology: Topology | Iterable[Round], *, method: str = "auto", seed: int | None = None
) -> Certificate:
    """Prove that one period of a topology, or a list of rounds, gives everyone the exact average.

    Raises `InvalidRound` or `NotFiniteTime`, naming the first violated property with round, nodes
    and values. `method="auto"` takes the exact proof where it costs up to a minute or so (n in the
    tens of thousands for one neighbor a round), the Freivalds check beyond. That one draws its
    primes from `seed`, by default a fresh one that nobody could foresee; the certificate names it.

    >>> from basegraph.topologies.catalog import topology
    >>> print(verify(topology("base", n=25)))
    base:k=1, n=25: 9 rounds of degree ≤ 1 multiply to J/n (exact integer product)
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
    facts = check_rounds(sequence)
    bits = (sequence.n * facts.scale).bit_length() + 1
    if method == "auto":
        work = (facts.arcs + sequence.n * period) * sequence.n * bits
        method = "exact" if work <= EXACT_WORK else "freivalds"
    error, trials = Fraction(0), 0
    if method == "exact":
        _prove_product(sequence, period, facts.scale, bits)
    else:
        once = Fraction(-(-bits // 30), PRIMES_BETWEEN_2_30_AND_2_31) + Fraction(1, 2**30)
        while error == 0 or error > Fraction(1, 2**ERROR_EXPONENT):
            trials += 1
            error = once**trials
        _test_product(sequence, period, facts.scale, trials, seed)
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
    )


def _as_topology(given: Topology | Iterable[Round]) -> Topology:
    if isinstance(given, Topology):
        return given
    try:
        return Sequence(given)
    except TypeError:
        raise InvalidArgument("topology", given, "must be a topology or several rounds") from None


# -- the rounds ------------------------------------------------------------------------------


def check_rounds(topology: Topology, steps: int | None = None) -> _Facts:
    """Check every round of the period (or of the first `steps`) by itself, exactly."""
    count = steps if steps is not None else topology.period
    if count is None:
        raise InvalidArgument("steps", steps, "must be given for a topology without a period")
    degree, arcs, scales = 0, 0, []
    for step in range(count):
        current = topology.round(step)
        scales.append(_check_round(current, topology, f"{topology.spec}, round {step}"))
        degree = max(degree, current.degree)
        arcs += len(current.receivers)
    return _Facts(degree, arcs, prod(scales))


def _check_round(r: Round, topology: Topology, where: str) -> int:
    """Check one round; returns its common denominator."""

    def refuse(bad: NDArray[np.bool_], complaint: str) -> None:
        if bad.any():
            arc = int(np.argmax(bad))
            receiver, sender = int(r.receivers[arc]), int(r.senders[arc])
            weight = f"{r.numerators[arc]}/{r.denominators[arc]}"
            raise InvalidRound(f"{where}: arc {receiver} ← {sender} of weight {weight} {complaint}")

    if r.n != topology.n:
        raise InvalidRound(f"{where}: has {r.n} nodes instead of {topology.n}")
    refuse(r.receivers == r.senders, "is a self loop")
    refuse(r.denominators < 1, "has a denominator below 1")
    refuse(r.numerators < 1, "is not positive")
    refuse(r.repeated(), "occurs twice")
    scale, arcs, own = r.over_common_denominator()
    if (own < 0).any():
        i = int(np.argmax(own < 0))
        raise InvalidRound(
            f"{where}: node {i} hears weights that sum to {Fraction(scale - int(own[i]), scale)}, "
            f"which leaves it a negative self weight"
        )
    columns = own.copy()
    np.add.at(columns, r.senders, arcs)
    if (columns != scale).any():
        j = int(np.argmax(columns != scale))
        raise InvalidRound(
            f"{where}: not doubly stochastic: column {j} sums to {Fraction(int(columns[j]), scale)}"
        )
    if topology.symmetric:
        refuse(r.unreturned(), "has no counterpart of the same weight, as a symmetric W must")
    degrees = r.degrees()
    allowed = topology.max_degree
    if topology.promised_degree is not None:
        allowed = min(allowed, topology.promised_degree)
    if degrees.max() > allowed:
        i = int(np.argmax(degrees))
        raise InvalidRound(
            f"{where}: node {i} talks to {degrees[i]} neighbors, more than {allowed}"
        )
    return scale


# -- the product, exactly ------------------------------------------------------------------------


def _prove_product(topology: Topology, period: int, scale: int, bits: int) -> None:
    """Compare every entry of the product with 1/n, some columns at a time."""
    n = topology.n
    width = max(1, min(n, CHUNK_BITS // (n * bits)))
    chunks = [range(first, min(first + width, n)) for first in range(0, n, width)]
    rounds = [_integer_round(topology.round(step)) for step in range(period)]
    for columns in chunks:
        rows = np.zeros(n, dtype=object)
        rows[columns.start : columns.stop] = [1 << (bits * c) for c in range(len(columns))]
        for own, slots in rounds:
            mixed = own * rows
            for receivers, senders, arcs in slots:
                mixed[receivers] += arcs * rows[senders]
            rows = mixed
        everywhere = scale * sum(1 << (bits * c) for c in range(len(columns)))
        for i in range(n):
            if n * rows[i] != everywhere:
                _blame(topology, i, columns, rows[i], scale, bits)


Slot = tuple[IntArray, IntArray, NDArray[Any]]
"""Receivers, senders and integer weights of arcs into different nodes."""


def _integer_round(r: Round) -> tuple[NDArray[Any], list[Slot]]:
    """Self weights and arcs over the common denominator; every node's s-th arc is in slot s."""
    _, arcs, own = r.over_common_denominator()
    heard = np.bincount(r.receivers, minlength=r.n)
    slot = np.arange(len(arcs)) - np.repeat(np.cumsum(heard) - heard, heard)
    order = np.argsort(slot, kind="stable")
    cuts: Any = np.cumsum(np.bincount(slot))[:-1] if len(slot) else []
    slots = [(r.receivers[s], r.senders[s], arcs[s].astype(object)) for s in np.split(order, cuts)]
    return own.astype(object), slots


def _blame(topology: Topology, i: int, columns: range, row: int, scale: int, bits: int) -> None:
    for j in columns:
        entry = Fraction((row >> (bits * (j - columns.start))) & ((1 << bits) - 1), scale)
        if entry != Fraction(1, topology.n):
            raise NotFiniteTime(
                f"{topology.spec}, n={topology.n}: after one period node {i} holds {entry} of "
                f"node {j}'s value instead of 1/{topology.n}"
            )


# -- the product, modulo random primes ------------------------------------------------------------


def _test_product(topology: Topology, period: int, scale: int, trials: int, seed: int) -> None:
    """Freivalds' check: the product applied to random vectors modulo random primes."""
    n = topology.n
    draws = np.random.Generator(np.random.Philox(key=seed))
    primes = list(islice(_random_primes(draws), trials))
    starts = [draws.integers(0, p, size=n, dtype=np.int64) for p in primes]
    vectors = [x.copy() for x in starts]
    for step in range(period):
        current = topology.round(step)
        _, arcs, own = current.over_common_denominator()
        for trial, p in enumerate(primes):
            vectors[trial] = _mix_modulo(current, arcs, own, vectors[trial], p)
    for x, start, p in zip(vectors, starts, primes, strict=True):
        expected = scale % p * (int(start.sum()) % p) % p
        wrong = x * (n % p) % p != expected
        if wrong.any():
            raise NotFiniteTime(
                f"{topology.spec}, n={n}: after one period node {int(np.argmax(wrong))} does not "
                f"hold the average (modulo the prime {p}, seed {seed})"
            )


def _mix_modulo(r: Round, arcs: NDArray[Any], own: NDArray[Any], x: IntArray, p: int) -> IntArray:
    mixed = (own % p).astype(np.int64) * x % p
    np.add.at(mixed, r.receivers, (arcs % p).astype(np.int64) * x[r.senders] % p)
    return mixed % p


def _random_primes(draws: np.random.Generator) -> Iterable[int]:
    """Uniform draws from the primes between 2^30 and 2^31."""
    while True:
        candidate = int(draws.integers(2**30, 2**31))
        if _is_prime(candidate):
            yield candidate


def _is_prime(number: int) -> bool:
    """Miller-Rabin with bases that decide every number below 3,215,031,751."""
    if number < 11:
        return number in (2, 3, 5, 7)
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in (2, 3, 5, 7):
        x = pow(witness, odd, number)
        if x in (1, number - 1):
            continue
        if not any((x := x * x % number) == number - 1 for _ in range(twos - 1)):
            return False
    return True
