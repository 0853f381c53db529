"""Property assertions, each in one place and named after its property."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from basegraph import Round, Sequence, Topology


def dense(r: Round) -> list[list[Fraction]]:
    """W entry by entry, from nothing but the arcs: independent of what `Round` computes itself."""
    matrix = [[Fraction(0)] * r.n for _ in range(r.n)]
    for i, j, a, b in zip(r.receivers, r.senders, r.numerators, r.denominators, strict=True):
        matrix[i][j] += Fraction(int(a), int(b))
    for i in range(r.n):
        matrix[i][i] += 1 - sum(matrix[i])
    return matrix


def product_of(rounds: list[Round]) -> list[list[Fraction]]:
    """W_m ... W_1, row by row with exact fractions."""
    n = rounds[0].n
    total = [[Fraction(i == j) for j in range(n)] for i in range(n)]
    for r in rounds:
        matrix = dense(r)
        total = [
            [sum((w * total[s][j] for s, w in enumerate(row) if w), Fraction(0)) for j in range(n)]
            for row in matrix
        ]
    return total


def is_finite_time(rounds: list[Round]) -> bool:
    n = rounds[0].n
    return all(entry == Fraction(1, n) for row in product_of(rounds) for entry in row)


def is_valid(r: Round, *, symmetric: bool, degree: int) -> bool:
    """Non-negative, doubly stochastic, symmetric where claimed, degree within the claim."""
    matrix = dense(r)
    n = range(r.n)
    in_degrees = [sum(w != 0 for j, w in enumerate(matrix[i]) if j != i) for i in n]
    out_degrees = [sum(matrix[i][j] != 0 for i in n if i != j) for j in n]
    return (
        all(w >= 0 for row in matrix for w in row)
        and all(sum(row) == 1 for row in matrix)
        and all(sum(matrix[i][j] for i in n) == 1 for j in n)
        and (not symmetric or all(matrix[i][j] == matrix[j][i] for i in n for j in n))
        and max(in_degrees + out_degrees) <= degree
    )


def assert_valid_rounds(t: Topology, steps: int) -> None:
    for step in range(steps):
        assert is_valid(t.round(step), symmetric=t.symmetric, degree=t.max_degree), (t, step)


def assert_degree_is_reached(t: Topology, steps: int) -> None:
    """`max_degree` is what the rounds have, not only a bound."""
    assert max(t.round(step).degree for step in range(steps)) == t.max_degree


def assert_nodes_agree_with_rounds(t: Topology, steps: int) -> None:
    """`t.neighbors(i, step)`, computed for one node, is what the whole round says."""
    for step in range(steps):
        r = t.round(step)
        for i in range(t.n):
            assert t.neighbors(i, step) == r.neighbors(i), (t, step, i)


def assert_listeners_agree_with_rounds(t: Topology, steps: int) -> None:
    """`t.listeners(i, step)`, computed for one node, is what the whole round says, ascending."""
    for step in range(steps):
        r = t.round(step)
        receivers: dict[int, list[int]] = {i: [] for i in range(t.n)}
        for receiver, sender in sorted(zip(r.receivers.tolist(), r.senders.tolist(), strict=True)):
            receivers[sender].append(receiver)
        for i in range(t.n):
            assert t.listeners(i, step) == r.listeners(i) == tuple(receivers[i]), (t, step, i)


def assert_time_is_an_argument(t: Topology) -> None:
    """Reading a round advances nothing; a sequence repeats after its period."""
    later = t.round(3)
    t.round(0)
    assert t.round(3) == later
    if t.period is not None:
        assert isinstance(t, Sequence)
        assert len(list(t)) == len(t) == t.period
        assert t.round(t.period + 1) == t.round(1) == t[1 % t.period]
        assert t[-1] == t[t.period - 1]


def assert_arcs_well_formed(r: Round) -> None:
    assert r.receivers.dtype == r.senders.dtype == np.int64
    assert r.numerators.dtype == r.denominators.dtype == np.int64
    assert len(r.receivers) == len(r.senders) == len(r.numerators) == len(r.denominators)
    assert (r.receivers != r.senders).all()
    assert (np.diff(r.receivers) >= 0).all()
    assert np.allclose(r.matrix().toarray(), np.array(dense(r), dtype=float), rtol=0, atol=1e-15)
    assert np.array_equal(r.self_weights, [float(w[i]) for i, w in enumerate(dense(r))])
