"""The benchmarks print what they say."""

from __future__ import annotations

from pathlib import Path

import basegraph as bg
from support.forks import run_python

ROOT = Path(__file__).resolve().parents[2]


def test_topologies_are_measured_beside_base_and_the_bound():
    script = ROOT / "benchmarks" / "topology.py"
    options = ["--topologies", "short,euclid", "--largest", "2", "--plus", "1", "--repeat", "1"]
    text = run_python(script, *options).stdout
    tables = dict(block.split("\n", 1) for block in text.split("\n\n")[1:])
    assert list(tables) == ["short, k = 1", "short, k = 2", "short, k = 4", "euclid, k = 1"]
    for title, table in tables.items():
        name, k = title.split(", k = ")
        header, row = table.splitlines()
        assert header.split()[:4] == ["n", "rounds", "base", "bound"]
        spec = name if name == "euclid" else f"{name}:k={k}"
        lengths = [bg.topology(s, n=101).period for s in (spec, f"base:k={k}")]
        assert row.split()[:4] == list(map(str, [101, *lengths, bg.shortest_possible(101, int(k))]))
        assert all(float(cell) >= 0 for cell in row.split()[4:])


def test_planning_and_evaluating_are_measured_against_an_epoch():
    script = ROOT / "benchmarks" / "overhead.py"
    text = run_python(script, "--nodes", 30, "--epochs", 1).stdout
    row = text.splitlines()[-1].split()
    assert row[0] == "30"
    assert row[6:] == ["25", "359"]
    assert all(float(cell) >= 0 for cell in row)


def test_language_models_are_measured_beside_a_loop_over_nodes():
    script = ROOT / "benchmarks" / "language.py"
    text = run_python(script, "--cases", "3x384", "--blocks", 1, "--steps", 1).stdout
    stacked, loop = (line.split() for line in text.splitlines()[-3:-1])
    assert stacked[:3] == ["3", "384", "stacked"]
    assert loop[:4] == ["3", "384", "node", "loop"]
    assert float(loop[6]) == 1
    assert all(float(cell) > 0 for cell in stacked[3:6])
