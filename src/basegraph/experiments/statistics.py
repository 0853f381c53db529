"""Runs of several seeds in one number, and numbers as tables write them."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import stdev


def standard_error(differences: list[float]) -> float | None:
    """The standard error of the mean of differences within seeds; one seed has none."""
    if len(differences) < 2:
        return None
    return stdev(differences) / len(differences) ** 0.5


def spread(values: list[float]) -> float | None:
    """The standard deviation of a sample; a single value has none."""
    return stdev(values) if len(values) > 1 else None


def rounded(number: float | None, digits: int) -> float | str:
    """A number of a table; – where there is none.

    >>> rounded(spread([1.0, 2.0]), 2), rounded(spread([1.0]), 2)
    (0.71, '–')
    """
    return "–" if number is None else round(number, digits)


def significant(number: float) -> float:
    """A number of a table with four significant digits.

    >>> significant(26.2144), significant(0.0013158)
    (26.21, 0.001316)
    """
    return float(f"{number:.4g}")


def listed(seeds: Iterable[int] | None) -> str:
    """Seeds as tables name them.

    >>> listed([1, 2]), listed(None)
    ('1, 2', '–')
    """
    return ", ".join(map(str, seeds or ())) or "–"
