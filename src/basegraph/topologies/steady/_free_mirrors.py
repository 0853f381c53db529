"""The freedom that euclid leaves: other mirrors that are exact as well."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import NamedTuple

from basegraph.topologies.core.tables import load_table
from basegraph.topologies.short._euclid import Mirror, chain


class MirrorParameters(NamedTuple):
    """What euclid leaves free; all values that fit together give an exact sequence."""

    splits: tuple[tuple[int, int], ...]
    """The factors of the circle's length in any order, each with any v coprime to it."""
    lifts: tuple[int, ...]
    """Per mirror after the first: which of the equivalent places its axis goes through."""
    renamed: tuple[int, ...] = ()
    """Mirrors, by their number, after which the two nodes of every pair swap their names."""
    backwards: bool = False
    """Whether the mirrors come in the opposite order."""
    extras: tuple[tuple[int, int, int], ...] = ()
    """More mirrors at the end, (shift, numerator, denominator): what is even stays so."""


@cache
def mirror_table() -> dict[int, MirrorParameters]:
    """The parameters that keep disagreement small, by number of nodes (mirrors.json)."""
    entries = load_table("basegraph.topologies.steady", "mirrors.json")
    return {n: MirrorParameters(**entry) for n, entry in entries.items()}


def free_mirrors(places: int, parameters: MirrorParameters) -> tuple[Mirror, ...]:
    """The mirrors of a circle that these parameters make.

    The m-th factor f_m runs its chain not on adjacent places but on those N / (f_1 ... f_m) apart;
    the f_1 ... f_{m-1} places that are even already may be shifted against each other, anew in
    every round (the lift).

    Args:
        places: Places on the circle.
        parameters: How they are split into factors, and by how much each round is lifted.

    Returns:
        The shift and the weight of every round.

    Example:
        >>> free_mirrors(3, MirrorParameters(splits=((3, 1),), lifts=(0, 0)))
        ((0, Fraction(1, 2)), (1, Fraction(1, 3)), (2, Fraction(1, 2)))

    """
    mirrors: list[Mirror] = [(0, Fraction(1, 2))]
    lifts = iter(parameters.lifts)
    done = 1
    for factor, v in parameters.splits:
        for shift, weight in chain(factor, v)[0]:
            spread, step = places // (done * factor), places // done
            mirrors.append((spread * shift + step * next(lifts), weight))
        done *= factor
    if parameters.backwards:
        mirrors.reverse()
    for number in parameters.renamed:
        rename(mirrors, number)
    mirrors += [(shift, Fraction(*weight)) for shift, *weight in parameters.extras]
    return tuple((shift % places, weight) for shift, weight in mirrors)


def rename(mirrors: list[Mirror], number: int) -> None:
    """Swap names after this mirror (s, w): it becomes (s, 1 - w), every later s' becomes 2s - s'.

    >>> known = [(0, Fraction(1, 2)), (1, Fraction(1, 3)), (2, Fraction(1, 2))]
    >>> rename(known, 1)
    >>> known
    [(0, Fraction(1, 2)), (1, Fraction(2, 3)), (0, Fraction(1, 2))]
    """
    axis, weight = mirrors[number]
    mirrors[number] = axis, 1 - weight
    mirrors[number + 1 :] = [(2 * axis - shift, w) for shift, w in mirrors[number + 1 :]]
