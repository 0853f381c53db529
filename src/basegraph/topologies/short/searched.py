"""What was searched for: the tables of block-mix, as the planner uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from basegraph.topologies.core.tables import load_table
from basegraph.topologies.short.corner_middle import Corners
from basegraph.topologies.short.free_mix import FreeMix
from basegraph.topologies.short.layout import Runs

PACKAGE = "basegraph.topologies.short"
"""Where the tables are."""
CORNER_TABLES = (2, 3)
"""The k for which rows and columns were searched for: corner_mixes_k2.json and so on."""
FREE_TABLES = (1, 2, 3)
"""The k for which whole middles were searched for: free_mixes_k1.json and so on."""

Entry = TypeVar("Entry")


class LaidMix(NamedTuple):
    """A block-mix with one neighbor a round whose middle `lay_out` finds."""

    rows: Runs
    columns: Runs
    turn: int


class CornerMix(NamedTuple):
    """A block-mix whose middle is a `CornerMiddle`."""

    rows: Runs
    columns: Runs
    flipped: Corners = ()


def laid_mixes() -> dict[int, LaidMix]:
    """Number of nodes -> rows, columns and turn, with one neighbor.

    >>> laid_mixes()[46].turn
    1
    """
    return _table("laid_mixes.json", LaidMix)


def corner_mixes() -> dict[int, dict[int, CornerMix]]:
    """k -> number of nodes -> rows, columns and flipped corners.

    >>> corner_mixes()[2][76].rows
    ((9, 8), (4, 1))
    """
    return {k: _table(f"corner_mixes_k{k}.json", CornerMix) for k in CORNER_TABLES}


def free_mixes() -> dict[int, dict[int, FreeMix]]:
    """k -> number of nodes -> rows, middle rounds and columns.

    >>> len(free_mixes()[1][17].middle)
    2
    """
    return {k: _table(f"free_mixes_k{k}.json", FreeMix) for k in FREE_TABLES}


def _table(name: str, kind: Callable[..., Entry]) -> dict[int, Entry]:
    return {n: kind(**entry) for n, entry in load_table(PACKAGE, name).items()}
