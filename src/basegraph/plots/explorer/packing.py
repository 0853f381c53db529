"""Rounds packed into the page: constructions that need a plan or a table have no copy in it.

The text is JSON, deflated, in base64: {"origins": [label, ...], "rounds": {spec: {n: rounds}}}. A
round is a list of groups [numerator, denominator, origin, [i, j, i, j, ...]]: pairs of nodes that
hear each other with this weight. All packed topologies are symmetric.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import defaultdict
from functools import cache
from typing import Any

from basegraph.errors import InvalidArgument
from basegraph.topologies.catalog import topology
from basegraph.topologies.core.origin import Origin
from basegraph.topologies.core.round import Round

PACKED = ("short", "steady", "block-mix", "block-merge")
"""Topologies of the catalogue whose rounds are packed into the page."""
PACKED_SPECS = (
    "short:k=1",
    "short:k=1,home=true",
    "short:k=2",
    "short:k=3",
    "steady",
    "block-mix:k=1",
    "block-merge:k=2",
)
ALL_UP_TO = 64
CHOSEN = (72, 80, 81, 96, 100, 120, 127, 128, 150, 160, 192, 200, 243, 250, 256, 300)
"""Numbers of nodes that are packed: all up to 64, and these beyond."""

Pack = dict[str, dict[int, list[list[Any]]]]


def packed(spec: str, n: int) -> str:
    """What the page needs to show the topologies of `PACKED`, and this one with n nodes.

    Args:
        spec: The topology that the page opens on, with all of its options.
        n: Its number of nodes.

    Returns:
        Text for `packed.js` to read.

    """
    usual = _usual()
    if spec.partition(":")[0] not in PACKED or n in usual.get(spec, {}):
        return _usual_text()
    return _text({**usual, spec: {**usual.get(spec, {}), n: rounds_of(spec, n)}})


@cache
def _usual_text() -> str:
    return _text(_usual())


def _text(pack: Pack) -> str:
    origins = [origin.label for origin in Origin]
    text = json.dumps({"origins": origins, "rounds": pack}, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


@cache
def _usual() -> Pack:
    """The rounds that every page has."""
    pack: Pack = {}
    for spec in PACKED_SPECS:
        pack[spec] = {}
        for n in (*range(1, ALL_UP_TO + 1), *CHOSEN):
            try:
                pack[spec][n] = rounds_of(spec, n)
            except InvalidArgument:
                continue  # block-mix is not defined for every n
    return pack


def rounds_of(spec: str, n: int) -> list[list[Any]]:
    """The rounds of a topology, packed.

    >>> rounds_of("short:k=1", 4)
    [[[1, 2, 1, [0, 1, 2, 3]]], [[1, 2, 1, [0, 2, 1, 3]]]]
    """
    t = topology(spec, n)
    assert t.symmetric, spec
    return [_groups(t.round(step)) for step in range(t.period)]


def _groups(r: Round) -> list[Any]:
    pairs: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    columns = (r.receivers, r.senders, r.numerators, r.denominators, r.origins)
    for i, j, a, b, origin in zip(*(column.tolist() for column in columns), strict=True):
        if i < j:
            pairs[a, b, origin] += [i, j]
    return [[*weight, flat] for weight, flat in pairs.items()]
