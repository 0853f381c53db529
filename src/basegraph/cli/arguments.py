"""Arguments that several commands share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.extras import require
from basegraph.launched import launched
from basegraph.storage.files import writable
from basegraph.topologies.catalog import TOPOLOGIES, parse_spec, topology
from basegraph.topologies.core.sequence import Topology

MOST_NUMBERS = 10**6
PICTURES = (".png", ".svg", ".pdf")
Force = Annotated[bool, typer.Option("--force", help="overwrite existing files")]


def complete_topology(incomplete: str) -> list[str]:
    """The catalogue's names that begin so, for a shell."""
    return [name for name in TOPOLOGIES if name.startswith(incomplete)]


def complete_algorithm(incomplete: str) -> list[str]:
    """The methods that begin so, for a shell."""
    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def items(text: str) -> list[str]:
    """The items of a list as it is written; spaces around commas do not count.

    >>> items("domains, iid")
    ['domains', 'iid']
    """
    return [item.strip() for item in text.split(",")]


def whole_numbers(argument: str, text: str, *, low: int = 1) -> list[int]:
    """Numbers written as `25`, `2:200` (both ends included) or `4,8,16:20`.

    >>> whole_numbers("--nodes", "2:4,8")
    [2, 3, 4, 8]
    """
    accepted = f"must be integers ≥ {low}, such as 25, 2:200 or 4,8,16"
    numbers: list[int] = []
    for item in text.split(","):
        first, colon, last = item.partition(":")
        try:
            start = int(first)
            stop = int(last) if colon else start
        except ValueError:
            raise InvalidArgument(argument, text, accepted) from None
        if start < low or stop < start:
            raise InvalidArgument(argument, text, accepted)
        if stop - start >= MOST_NUMBERS:
            raise InvalidArgument(argument, text, f"must be at most {MOST_NUMBERS} numbers")
        if stop >= 2**64:
            raise InvalidArgument(argument, text, "must be integers below 2**64")
        numbers.extend(range(start, stop + 1))
    return list(dict.fromkeys(numbers))


def whole_number(argument: str, text: str | None, *, low: int = 1, high: int = 2**64) -> int:
    """One number, such as 25. (Read here rather than by typer, whose refusal hides the value.)"""
    if text is None:
        raise BasegraphError(f"{argument} is missing: it must be an integer ≥ {low}")
    try:
        number = int(text)
    except ValueError:
        number = low - 1
    if number < low:
        raise InvalidArgument(argument, text, f"must be an integer ≥ {low}")
    if number >= high:
        raise InvalidArgument(argument, text, f"must be an integer below {high}")
    return number


def degree_option(name: str) -> str | None:
    """What this topology calls the number of neighbors: k, degree, or nothing."""
    return next((o for o in ("k", "degree") if o in TOPOLOGIES[name].options), None)


def build(spec: str, n: int, *, degree: int | None = None, seed: int | None = None) -> Topology:
    """The topology of a spec, with --degree and --seed as the options they mean for it."""
    name, _ = parse_spec(spec)
    options: dict[str, object] = {}
    for flag, value, option in (
        ("--degree", degree, degree_option(name)),
        ("--seed", seed, "seed" if "seed" in TOPOLOGIES[name].options else None),
    ):
        if value is None:
            continue
        if option is None:
            raise InvalidArgument(flag, value, f"{name} has no such option{_has(name)}")
        options[option] = value
    return topology(spec, n, **options)


def _has(name: str) -> str:
    options: Mapping[str, object] = TOPOLOGIES[name].options
    return f"; it has {', '.join(options)}" if options else ""


def number(argument: str, text: str, *, low: float | None = None) -> float:
    """A number as written, not below `low` where that is given."""
    try:
        value = float(text)
    except ValueError:
        raise InvalidArgument(argument, text, "must be a number") from None
    if low is not None and not value >= low:
        raise InvalidArgument(argument, text, f"must be a number ≥ {low:g}")
    return value


def check_picture(argument: str, path: Path | None, *, force: bool) -> None:
    """Refuse, before the work, a figure that could not be drawn or written; None is no figure."""
    if path is not None:
        writable(argument, path, suffixes=PICTURES, force=force)
        require("matplotlib")


def refuse_torchrun(argument: str, value: object, remedy: str) -> None:
    """Refuse to do in every process that a launcher has started what is the work of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        raise InvalidArgument(
            argument,
            value,
            f"torchrun has started {size} processes, each of which would do all of it; {remedy}",
        )
    if launched():
        raise InvalidArgument(
            argument,
            value,
            "basegraph launch has started several nodes, each of which would do all of it; it "
            "starts scripts, and -m basegraph train --engine distributed",
        )
