"""The product of one period, tested modulo random primes: Freivalds' check, O(arcs) a trial.

The integers of the exact proof modulo a random prime, applied to a random vector. Let M be the
integer matrix n ∏ D_t (W_m ... W_1 - J/n), whose entries are at most n ∏ D_t in size. If M ≠ 0, a
trial passes by mistake only if the prime divides a non-zero entry of M (it has fewer than
log2(n ∏ D_t) / 30 prime factors above 2^30, of the 50,697,537 primes between 2^30 and 2^31), or if
the random vector is in the kernel of M modulo the prime (probability below 2^-30). Independent
trials multiply; their number is chosen so that the error stays below 2^-60.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basegraph.errors import NotFiniteTime
from basegraph.topologies.core.random import generator
from basegraph.topologies.core.round import IntArray, Round
from basegraph.topologies.core.sequence import Topology

PRIMES_BETWEEN_2_30_AND_2_31 = 50_697_537
ERROR_EXPONENT = 60


def trials_for(bits: int) -> tuple[Fraction, int]:
    """The error bound and how many trials it takes to be below 2^-60, for entries of so many bits.

    >>> trials_for(100)[1]
    3
    """
    once = Fraction(-(-bits // 30), PRIMES_BETWEEN_2_30_AND_2_31) + Fraction(1, 2**30)
    trials = 1
    while once**trials > Fraction(1, 2**ERROR_EXPONENT):
        trials += 1
    return once**trials, trials


def check_product(topology: Topology, period: int, scale: int, trials: int, seed: int) -> None:
    """Apply the product to random vectors modulo random primes.

    Args:
        topology: Whose rounds are multiplied.
        period: How many of them.
        scale: The product of their common denominators, ∏ D_t.
        trials: How many primes, each with a vector of its own.
        seed: What primes and vectors are drawn from.

    Raises:
        NotFiniteTime: If a node does not hold the average.

    """
    n = topology.n
    random = generator(seed)
    primes = list(islice(random_primes(random), trials))
    starts = [random.integers(0, p, size=n, dtype=np.int64) for p in primes]
    vectors = [x.copy() for x in starts]
    for step in range(period):
        current = topology.round(step)
        _, arcs, self_weights = current.over_common_denominator()
        for trial, p in enumerate(primes):
            vectors[trial] = mix_modulo(current, arcs, self_weights, vectors[trial], p)
    for x, start, p in zip(vectors, starts, primes, strict=True):
        expected = scale % p * (int(start.sum()) % p) % p
        wrong = x * (n % p) % p != expected
        if wrong.any():
            raise NotFiniteTime(
                f"{topology.spec}, n={n}: after one period node {int(np.argmax(wrong))} does not "
                f"hold the average (modulo the prime {p}, seed {seed})"
            )


def mix_modulo(
    r: Round, arcs: NDArray[Any], self_weights: NDArray[Any], x: IntArray, p: int
) -> IntArray:
    """One round on a vector, modulo a prime."""
    mixed = (self_weights % p).astype(np.int64) * x % p
    np.add.at(mixed, r.receivers, (arcs % p).astype(np.int64) * x[r.senders] % p)
    return mixed % p


def random_primes(random: np.random.Generator) -> Iterator[int]:
    """Uniform draws from the primes between 2^30 and 2^31."""
    while True:
        candidate = int(random.integers(2**30, 2**31))
        if is_prime(candidate):
            yield candidate


def is_prime(number: int) -> bool:
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
