"""All arcs and weights of the catalogue for n ≤ 64 are those that were recorded."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import basegraph as bg
from support.golden import golden

BEHAVIOR = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "behavior.py"))
OPTIONS = list(BEHAVIOR["every_topology"]())
ARCS = golden("arcs")["arcs"]


def differing(options):
    """How many options are not the first that is tried, which is the default."""
    return sum(value != BEHAVIOR["OPTIONS"][option][0] for option, value in options.items())


def assert_as_recorded(name, fewest, most):
    for options in [options for other, options in OPTIONS if other == name]:
        if fewest <= differing(options) <= most:
            assert BEHAVIOR["arcs"](name, options) == ARCS[f"{name} {options}"], options


def test_every_topology_is_recorded_with_every_option():
    assert {f"{name} {options}" for name, options in OPTIONS} == set(ARCS)


@pytest.mark.parametrize("name", bg.TOPOLOGIES)
def test_arcs_with_at_most_one_option(name):
    assert_as_recorded(name, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", bg.TOPOLOGIES)
def test_arcs_with_several_options(name):
    assert_as_recorded(name, 2, 9)
