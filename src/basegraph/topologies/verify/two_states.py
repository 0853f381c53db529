"""The proof for nodes that keep two vectors: one period of 2n × 2n maps, exactly or modulo primes.

The product over a period must take (x, y) to x' = J/n x, whatever y is: the upper half of the
2n × 2n product is [J/n, 0]. Rows have no negative entry and sum to one, so where the n columns of x
hold 1/n each, nothing is left for those of y, and the former are what is compared. The lower half,
what becomes of y, is not checked. The arithmetic is that of `exact` and `modular`, on 2n slots.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from math import prod

import numpy as np

from basegraph.errors import InvalidRound, NotFiniteTime
from basegraph.topologies.core.random import generator
from basegraph.topologies.two_states.sequence import TwoStateSequence
from basegraph.topologies.verify.exact import CHUNK_BITS, integer_round
from basegraph.topologies.verify.modular import mix_modulo, random_primes
from basegraph.topologies.verify.rounds import RoundFacts, check_arcs


def check_two_state_rounds(sequence: TwoStateSequence) -> RoundFacts:
    """Check every round of the period by itself: weights, and messages per node.

    Args:
        sequence: Its rounds are checked against what it claims of itself.

    Raises:
        InvalidRound: If a round is not what it must be.

    """
    degree, arcs, scales = 0, 0, []
    for step, current in enumerate(sequence):
        where = f"{sequence.spec}, round {step}"
        if current.n != sequence.n:
            raise InvalidRound(f"{where}: has {current.n} nodes instead of {sequence.n}")
        scales.append(check_arcs(current.slots, f"{where} (slots x, then y)")[0])
        degree = max(degree, current.degree)
        arcs += len(current.receivers)
        allowed = sequence.max_degree
        if sequence.promised_degree is not None:
            allowed = min(allowed, sequence.promised_degree)
        if current.degree > allowed:
            raise InvalidRound(f"{where}: {current.degree} messages at a node, more than {allowed}")
    return RoundFacts(degree, arcs, prod(scales))


def prove_two_state_product(sequence: TwoStateSequence, scale: int, bits: int) -> None:
    """Compare what every x becomes of every x, in the product, with 1/n.

    Args:
        sequence: Whose rounds are multiplied.
        scale: The product of their common denominators, ∏ D_t.
        bits: Width of an entry, with 2^bits > n ∏ D_t.

    Raises:
        NotFiniteTime: If an entry is not what it must be; names it.

    """
    n = sequence.n
    width = max(1, min(n, CHUNK_BITS // (2 * n * bits)))
    rounds = [integer_round(r.slots) for r in sequence]
    for first in range(0, n, width):
        columns = range(first, min(first + width, n))
        slots = np.zeros(2 * n, dtype=object)
        slots[columns.start : columns.stop] = [1 << (bits * c) for c in range(len(columns))]
        for self_weights, arcs_by_place in rounds:
            mixed = self_weights * slots
            for receivers, senders, arcs in arcs_by_place:
                mixed[receivers] += arcs * slots[senders]
            slots = mixed
        everywhere = scale * sum(1 << (bits * c) for c in range(len(columns)))
        for i in range(n):
            if n * slots[i] != everywhere:
                _blame(sequence, i, columns, slots[i], scale, bits)


def _blame(
    sequence: TwoStateSequence, i: int, columns: range, row: int, scale: int, bits: int
) -> None:
    n = sequence.n
    for j in columns:
        entry = Fraction((row >> (bits * (j - columns.start))) & ((1 << bits) - 1), scale)
        if entry != Fraction(1, n):
            raise NotFiniteTime(
                f"{sequence.spec}, n={n}: after one period x of node {i} holds {entry} of x of "
                f"node {j} instead of 1/{n}"
            )


def check_two_state_product(sequence: TwoStateSequence, scale: int, trials: int, seed: int) -> None:
    """Apply the product to random vectors modulo random primes.

    Args:
        sequence: Whose rounds are multiplied.
        scale: The product of their common denominators, ∏ D_t.
        trials: How many primes, each with a vector of its own.
        seed: What primes and vectors are drawn from.

    Raises:
        NotFiniteTime: If some x is not the average of all x.

    """
    n = sequence.n
    random = generator(seed)
    primes = list(islice(random_primes(random), trials))
    starts = [random.integers(0, p, size=2 * n, dtype=np.int64) for p in primes]
    vectors = list(starts)
    for current in sequence:
        _, arcs, self_weights = current.slots.over_common_denominator()
        for trial, p in enumerate(primes):
            vectors[trial] = mix_modulo(current.slots, arcs, self_weights, vectors[trial], p)
    for end, start, p in zip(vectors, starts, primes, strict=True):
        expected = scale % p * (int(start[:n].sum()) % p) % p
        wrong = end[:n] * (n % p) % p != expected
        if wrong.any():
            raise NotFiniteTime(
                f"{sequence.spec}, n={n}: after one period x of node {int(np.argmax(wrong))} is "
                f"not the average of all x (modulo the prime {p}, seed {seed})"
            )
