"""One color and one line style per topology, that can be seen on white and on black."""

import json
from itertools import combinations

import pytest

from basegraph.plots.colors import TABLE, look, looks
from basegraph.topologies.catalog import TOPOLOGIES

TABLE_ENTRIES = json.loads(TABLE.read_text())
ALL_REDUCES = ("all-reduce", "all-reduce-halving")


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    low, high = sorted(map(luminance, (a, b)))
    return (high + 0.05) / (low + 0.05)


def test_every_topology_has_a_look_of_its_own():
    named = [f"{n}:k={k}" for n, b in TOPOLOGIES.items() if "k" in b.options for k in range(1, 6)]
    named += [name for name, builder in TOPOLOGIES.items() if "k" not in builder.options]
    assert set(named) | set(ALL_REDUCES) == set(TABLE_ENTRIES["looks"])
    drawn = looks(TABLE_ENTRIES["looks"])
    for first, second in combinations(drawn, 2):
        assert drawn[first] != drawn[second], (first, second)


@pytest.mark.parametrize(("shade", "page"), [("light", "#ffffff"), ("dark", "#1c1b1a")])
def test_colors_can_be_seen(shade, page):
    for spec, entry in [*TABLE_ENTRIES["looks"].items(), *enumerate(TABLE_ENTRIES["others"])]:
        assert contrast(entry[shade], page) >= 3, spec


def test_options():
    assert look("base") == look("base:k=1") != look("base:k=2")
    assert look("base:k=5") == look("base:k=9")
    assert look("u-equistatic:degree=2,seed=3") == look("u-equistatic")
    home = look("base:k=2,home=true")
    assert home.color == look("base:k=2").color
    assert home.dashes != look("base:k=2").dashes


def test_topologies_outside_the_catalogue_differ():
    drawn = looks(["mine", "ring", "yours"])
    assert len(set(drawn.values())) == 3
    assert drawn["ring"] == look("ring")
