"""Sequences with two vectors per node in the commands: beside the others, and said plainly."""

from __future__ import annotations

import json

import pytest

from support.cli import ok, run_here


def test_the_rounds_are_shown(tmp_path):
    text = ok("topology", "ceca", "-n", "7", "--draw", str(tmp_path / "ceca.svg"))
    assert "two vectors per node" in text
    assert "y     3/7          1/2" in text
    assert (tmp_path / "ceca.svg").exists()
    told = json.loads(ok("topology", "ceca", "-n", "7", "--json"))
    assert (told["vectors_per_node"], told["period"], told["properties"]) == (2, 3, None)
    assert told["rounds"][2][0] == [0, 4, "y", "3/7", "1/2"]
    assert json.loads(ok("topology", "base", "-n", "7", "--json"))["vectors_per_node"] == 1


def test_one_node_is_shown():
    assert "receives from" in ok("topology", "ceca", "-n", "7", "--node", "3")
    told = json.loads(ok("topology", "ceca", "-n", "7", "--node", "3", "--json"))
    assert told[1] == [1, {"1": {"vector": "x", "weight_in_x": "1/2", "weight_in_y": "2/3"}}]


def test_it_is_proved():
    assert "two vectors per node, 0 failed" in ok("verify", "ceca", "-n", "1:9")
    assert "5 rounds of degree ≤ 1, two vectors per node" in ok("verify", "ceca", "-n", "25")
    (told,) = json.loads(ok("verify", "ceca", "-n", "25", "--json"))["proved"]
    assert told["vectors_per_node"] == 2


def test_its_length_stands_beside_the_others(tmp_path):
    arguments = ["lengths", "-n", "25", "-k", "1:2", "--topologies", "base,ceca"]
    text = ok(*arguments, "--optimal", "--plot", str(tmp_path / "lengths.png"))
    assert "mean ceca (two vectors per node)" in text
    assert "the lower bound is for one vector per node" in text
    one, two = json.loads(ok(*arguments, "--json"))
    assert (one["ceca"], one["ceca_vectors_per_node"], two["ceca"]) == (5, 2, None)


def test_its_error_stands_beside_the_others():
    arguments = ["consensus", "--topologies", "ceca,ring", "--steps", "5"]
    assert "ceca (two vectors per node)" in ok(*arguments)
    rows = json.loads(ok(*arguments, "--json"))
    assert {(row["topology"], row["vectors_per_node"]) for row in rows} == {
        ("ceca", 2),
        ("ring", 1),
    }
    assert [row["error"] < 1e-28 for row in rows if row["topology"] == "ceca"] == [False] * 5 + [
        True
    ]


def test_the_page_opens_on_it(tmp_path):
    ok("explore", "--out", str(tmp_path / "page.html"), "--topology", "ceca")
    assert "two vectors per node" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["topology", "ceca", "-n", "7", "--properties"],
            "NAME='ceca': keeps two vectors per node",
        ),
        (["topology", "ceca", "-n", "7", "-k", "2"], "--degree=2: ceca has no such option"),
        (["topology", "ceca", "-n", "7", "--node", "7", "--draw", "a.png"], "--node=7: must be"),
        (["verify", "ceca:home=true", "-n", "7"], "keeps two vectors per node: only pairs"),
    ],
)
def test_what_it_cannot_do_gets_one_line(arguments, complaint, tmp_path):
    done = run_here(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert complaint in done.stderr
    assert list(tmp_path.iterdir()) == []
