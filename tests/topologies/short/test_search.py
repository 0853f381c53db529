"""The searches behind the tables find again what is small, and what they write is exact."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import basegraph as bg
from basegraph.topologies.core.tables import read_table
from basegraph.topologies.short._short import short
from basegraph.topologies.short.free_mix import FreeMix, free_mix

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
sys.path.append(str(SCRIPTS))


def search(tmp_path, *arguments):
    """What search_free.py writes."""
    table = tmp_path / "table.json"
    command = [sys.executable, SCRIPTS / "search_free.py", *arguments, "--seconds", "9999"]
    subprocess.run([*command, "--out", table], check=True, capture_output=True)
    return {n: FreeMix(**entry) for n, entry in read_table(table).items()}


@pytest.mark.parametrize(
    ("n", "k", "rows", "columns", "middle", "rounds"),
    [
        (5, 1, "2x2,1", "2x2,1", 2, 4),
        (11, 1, "4x2,3*", "2x5,1", 2, 5),
        (14, 2, "3x4,2", "3x4,2", 1, 3),
    ],
)
def test_free_middles_are_found_and_exact(tmp_path, n, k, rows, columns, middle, rounds):
    where = ["--nodes", str(n), "--degree", str(k), "--rows", rows, "--columns", columns]
    mix = search(tmp_path, *where, "--middle", str(middle))[n]
    t = free_mix(mix, k, "searched", True, lambda size: short(size, k))
    certificate = bg.verify(t)
    assert (certificate.period, certificate.max_degree <= k) == (rounds, True)


def test_flipped_corners_are_found():
    from random import Random

    from search_corners import flips_with_room, starts

    from basegraph.topologies.short.corner_middle import has_room, has_room_flipped

    line = (9,) * 8 + (4,)
    where = starts(line), starts(line), 76, 2
    assert not has_room(*where)
    flipped = next(
        corners for seed in range(99) if (corners := flips_with_room(line, line, 2, Random(seed)))
    )
    assert has_room_flipped(*where, flipped)


def test_candidates_take_the_rounds_that_are_asked_for():
    from free_candidates import candidates

    for ratio, rows, columns, middle in candidates(31, 1, 7):
        assert ratio > 0
        place = tuple(range(31))
        mix = FreeMix(rows.runs, columns.runs, place, ((),) * middle, rows.late, columns.late)
        assert mix.rounds(lambda size: short(size).period if size > 1 else 0) <= 7
