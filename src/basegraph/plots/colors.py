"""The color and the line style of every topology, the same in all figures and on the page.

`colors.json` has them as data, for programs in other languages too, with a note on its format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ALL_REDUCE = "all-reduce"
"""What figures call averaging over all nodes at every step, which is no topology."""
TABLE = Path(__file__).with_name("colors.json")


class Look(NamedTuple):
    """How the line of a topology is drawn."""

    color: str
    """On white."""
    dashes: tuple[float, ...]
    """Lengths drawn and left out, in line widths; none for a solid line."""
    dark: str
    """The color on black."""

    @property
    def linestyle(self) -> tuple[int, tuple[float, ...]] | str:
        """The dashes as matplotlib takes them."""
        return (0, self.dashes) if self.dashes else "-"


def topology_of(config: Mapping[str, Any]) -> str:
    """The topology of a run's configuration as figures and tables call it.

    Example:
        >>> topology_of({"algorithm": "allreduce-sgd", "topology": "base:k=1"})
        'all-reduce'
        >>> outer = {"local_steps": 32, "outer": "allreduce-sgd:momentum=0.9"}  # DiLoCo
        >>> topology_of({"algorithm": "adamw", "topology": "base:k=1", **outer})
        'all-reduce'

    """
    outer = config.get("outer", "none")
    communicates = config["algorithm"] if outer == "none" else outer
    central = str(communicates).startswith("allreduce-")
    return ALL_REDUCE if central else str(config["topology"])


def look(spec: str) -> Look:
    """The look of a topology, by its spec.

    Each k of a topology has its own. One that stays at home keeps its color and has other dashes.

    Args:
        spec: As in `bg.topology`, or `all-reduce`, `all-reduce-halving`.

    Returns:
        Its color and dashes; those of the first other look for what the table does not know.

    Example:
        >>> look("base:k=1").color, look("base").color, look("base:k=1,home=true").color
        ('#0b5c8a', '#0b5c8a', '#0b5c8a')
        >>> look("ring").linestyle
        (0, (5.0, 2.0))

    """
    return looks([spec])[spec]


def looks(specs: Iterable[str]) -> dict[str, Look]:
    """The look of each topology of a figure, by spec; what the table does not know differs too."""
    table = _table()
    found: dict[str, Look] = {}
    strangers = 0
    for spec in dict.fromkeys(specs):
        name, _, rest = spec.partition(":")
        options = dict(item.partition("=")[::2] for item in rest.split(","))
        entry = _entry(name, options.get("k"))
        if entry is None:
            entry = table["others"][strangers % len(table["others"])]
            strangers += 1
        dashes = table["home"]["dashes"] if options.get("home") == "true" else entry["dashes"]
        found[spec] = Look(entry["light"], tuple(map(float, dashes)), entry["dark"])
    return found


def _entry(name: str, k: str | None) -> dict[str, Any] | None:
    """The entry of a name, or of its k: without one the first, beyond the table the last."""
    entries: dict[str, dict[str, Any]] = _table()["looks"]
    with_k = [entry for spec, entry in entries.items() if spec.startswith(f"{name}:")]
    if not with_k:
        return entries.get(name)
    known = entries.get(f"{name}:k={k}", with_k[-1])
    return with_k[0] if k is None else known


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table
