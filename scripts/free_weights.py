"""Exact rational weights for a middle that search_free.py has found in floating point."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from free_chains import Chains
from numpy.typing import NDArray

Array = NDArray[Any]

DIGITS = 400
"""Bits of the weights of two rounds, before they are recognized as fractions."""


def exact_weights(search: Chains, chain: int) -> list[Fraction] | None:
    """The weights of this chain as exact rationals; None where none are recognized."""
    orders = search.orders[chain : chain + 1]
    weights, norm = search.solve(orders, search.weights[chain : chain + 1], steps=60)
    if norm[0] > 1e-12:
        return None
    parts = search.parts(orders)
    near = weights[0]
    if not search.two:
        left, slope = search.residual(np.zeros_like(weights), parts)
        return nearest_solution(slope[0].T, -left[0], near, search.n, search.most)
    # Two rounds: fix one at simple fractions and solve the other, or recognize isolated ones.
    half = search.pairs
    for fixed in (slice(0, half), slice(half, 2 * half)):
        for denominator in (2, 3, 4, 6, 12, 60):
            start = weights.copy()
            start[0, fixed] = [
                float(Fraction(w).limit_denominator(denominator)) for w in near[fixed]
            ]
            solved = solve_other(search, start, fixed, parts, denominator)
            if solved:
                return solved
    return recognized(search, orders, near)


def solve_other(
    search: Chains, start: Array, fixed: slice, parts: tuple[Array, ...], denominator: int
) -> list[Fraction] | None:
    """Weights with one round fixed at fractions of small denominators, the other exact."""
    half = search.pairs
    free = slice(half, 2 * half) if fixed.start == 0 else slice(0, half)
    zero = start.copy()
    zero[0, free] = 0
    left, slope = search.residual(zero, parts)
    values = np.linalg.lstsq(slope[0][free].T, -left[0], rcond=None)[0]
    if np.abs(slope[0][free].T @ values + left[0]).max() > 1e-9:
        return None
    whole = [Fraction(float(w)).limit_denominator(denominator) for w in zero[0]]
    exact = exact_residual(search, parts, whole)
    columns = []
    for number in range(free.start, free.stop):
        moved = list(whole)
        moved[number] = Fraction(1)
        after = exact_residual(search, parts, moved)
        columns.append([a - b for a, b in zip(after, exact, strict=True)])
    solved = eliminate(columns, [-v for v in exact], values, search.n, 1.0)
    if solved is None:
        return None
    whole[free] = solved
    return whole


def exact_residual(
    search: Chains, parts: tuple[Array, ...], weights: list[Fraction]
) -> list[Fraction]:
    """What these weights leave, in rationals."""
    one, two, taken, given, whole = (part[0] for part in parts)
    n, half = search.n, search.pairs
    take, give = taken.astype(int).tolist(), given.astype(int).tolist()
    left = [[Fraction(round(v * n), n) for v in line] for line in whole.tolist()]
    ends = [
        [(int(i), int(j)) for i, j in zip(one[layer], two[layer], strict=True)] for layer in (0, 1)
    ]
    for layer in (0, 1):
        for e in range(half):
            w = weights[layer * half + e]
            if w:
                for a, x in enumerate(take[layer][e]):
                    for b, y in enumerate(give[layer][e]):
                        if x and y:
                            left[a][b] -= w * x * y
    for e, (i, j) in enumerate(ends[1]):
        for f, (p, q) in enumerate(ends[0]):
            meet = (i == p) - (i == q) - (j == p) + (j == q)
            w = weights[half + e] * weights[f]
            if meet and w:
                for a, x in enumerate(take[1][e]):
                    for b, y in enumerate(give[0][f]):
                        if x and y:
                            left[a][b] += w * meet * x * y
    return [value for line in left for value in line]


def recognized(search: Chains, orders: Array, near: Array) -> list[Fraction] | None:
    """Newton's method in many digits; the weights if they are fractions of small terms."""
    parts = search.parts(orders)
    _, slope = search.residual(near[None], parts)
    inverse = np.linalg.pinv(slope[0].T, rcond=1e-9)
    scale = 1 << DIGITS
    weights = [Fraction(round(Fraction(float(w)) * scale), scale) for w in near]
    for _ in range(40):
        left = exact_residual(search, parts, weights)
        largest = max(map(abs, left))
        if largest < Fraction(1, 1 << (DIGITS - 40)):
            break
        bits = largest.denominator.bit_length() - largest.numerator.bit_length()
        unit = Fraction(1, 1 << max(0, bits))
        change = inverse @ np.array([float(v / unit) for v in left])
        weights = [
            Fraction(round((w - Fraction(float(c)) * unit) * scale), scale)
            for w, c in zip(weights, change, strict=True)
        ]
    else:
        return None
    fractions = [w.limit_denominator(10**15) for w in weights]
    if any(abs(exact) > 0 for exact in exact_residual(search, parts, fractions)):
        return None
    return fractions


def nearest_solution(
    matrix: Array, right: Array, near: Array, n: int, most: float
) -> list[Fraction] | None:
    """An exact solution of integer equations with the right side in units of 1/n."""
    columns = [[Fraction(round(v)) for v in column] for column in matrix.T]
    return eliminate(columns, [Fraction(round(v * n), n) for v in right], near, n, most)


def eliminate(
    columns: list[list[Fraction]], right: list[Fraction], near: Array, n: int, most: float
) -> list[Fraction] | None:
    """A solution near `near` between 0 and `most`; unknowns away from the bounds are pivots."""
    top = Fraction(most).limit_denominator(100)
    inside = np.minimum(near, most - near)
    order = sorted(range(len(columns)), key=lambda u: -inside[u])
    lines = [[*(columns[u][r] for u in order), value] for r, value in enumerate(right)]
    pivots: list[tuple[int, list[Fraction]]] = []
    for unknown in range(len(order)):
        pivot = next((line for line in lines if line[unknown]), None)
        if pivot is None:
            continue
        lines.remove(pivot)
        scaled = [value / pivot[unknown] for value in pivot]
        lines = [without(line, scaled, unknown) for line in lines]
        pivots = [(u, without(line, scaled, unknown)) for u, line in pivots]
        pivots.append((unknown, scaled))
    if any(line[-1] for line in lines):
        return None
    of_pivot = {u for u, _ in pivots}
    for denominator in (1, n, 2 * n, 12 * n, 5040 * n):
        values = [Fraction(0)] * len(order)
        for u in range(len(order)):
            if u not in of_pivot:
                value = Fraction(round(near[order[u]] * denominator), denominator)
                values[u] = min(max(value, Fraction(0)), top)
        for u, line in pivots:
            values[u] = line[-1] - sum(
                (a * values[v] for v, a in enumerate(line[:-1]) if a and v != u), Fraction(0)
            )
        if all(0 <= value <= top for value in values):
            weights = [Fraction(0)] * len(order)
            for u, value in enumerate(values):
                weights[order[u]] = value
            return weights
    return None


def without(line: list[Fraction], pivot: list[Fraction], unknown: int) -> list[Fraction]:
    """A line of equations without this unknown, which the pivot has with factor 1."""
    factor = line[unknown]
    return [a - factor * b for a, b in zip(line, pivot, strict=True)] if factor else line
