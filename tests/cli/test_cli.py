from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from typer.main import get_command

import basegraph as bg
from basegraph.cli.app import app
from support.cli import ok, run, run_here


def test_topology_prints_rounds_weights_and_origins():
    text = ok("topology", "base", "--nodes", 5, "--degree", 1, by=run)
    assert "<base:k=1, 5 nodes, 5 rounds, degree 1>" in text
    assert "2  Alg. 2 line 15  4/5         1  0–4" in text
    assert "2  Alg. 2 line 20  1/2         1  1–2" in text
    assert "\x1b" not in text


def test_topology_json_is_the_sequence():
    printed = json.loads(ok("topology", "base:k=2", "-n", 7, "--json"))
    t = bg.topology("base:k=2", n=7)
    assert (printed["n"], printed["period"], printed["max_degree"]) == (7, t.period, t.max_degree)
    for edges, r in zip(printed["rounds"], t, strict=True):
        assert bg.Round.from_edges(7, {(i, j): Fraction(w) for i, j, w, _ in edges}) == r


def test_topology_json_of_the_paper_s_own_graph():
    printed = json.loads(ok("topology", "base:k=1,isolated=last", "-n", 5, "--json"))
    assert printed["spec"] == "base:k=1,isolated=last"
    assert [edge[:3] for edge in printed["rounds"][2]] == [[0, 1, "1/2"], [3, 4, "4/5"]]


def test_topology_says_where_a_torus_is_a_slow_ring():
    assert "note: on 7 nodes the torus is a ring" in ok("topology", "torus", "-n", 7)
    assert "a ring" in json.loads(ok("topology", "torus", "-n", 7, "--json"))["note"]
    assert "note:" not in ok("topology", "torus", "-n", 9)


def test_topology_shows_properties_and_what_they_mean():
    text = ok("topology", "base", "-n", 25)
    assert "properties (exact to rounding)" in text
    assert " 0.2121   0.00699  1.088            0.5153  8/9" in text
    assert "D(ρ): training disagreement" in text
    assert "None of these is a verdict" in text
    assert "properties" not in ok("topology", "base", "-n", 25, "--no-properties")
    assert "properties" not in ok("topology", "one-peer-d-equidyn", "-n", 25)
    assert "properties" not in ok("topology", "base", "-n", 25, "--node", 3)


def test_topology_json_has_the_properties():
    properties = json.loads(ok("topology", "euclid", "-n", 12, "--json"))["properties"]
    t = bg.topology("euclid", n=12)
    assert properties["training_disagreement"] == {
        "0.05": bg.training_disagreement(t, 0.05),
        "0.005": bg.training_disagreement(t, 0.005),
    }
    assert properties["noise_disagreement"] == bg.noise_disagreement(t)
    weights = properties["mean_pair_weight"], Fraction(properties["largest_pair_weight"])
    assert weights == bg.pair_weights(t)
    assert "verdict" in properties["caution"]
    assert (
        json.loads(ok("topology", "ring", "-n", 9, "--json", "--no-properties"))["properties"]
        is None
    )


def test_topology_of_many_nodes_is_estimated_or_left_until_asked_for():
    text = ok("topology", "ring", "-n", 1000)
    assert "Monte-Carlo estimates from 16 draws" in text
    assert "not settled" in text  # a ring forgets in some n² rounds
    assert "--properties computes them" in ok("topology", "complete", "-n", 400)
    assert "Monte-Carlo" in ok("topology", "complete", "-n", 400, "--properties")


def test_topology_of_one_node_needs_no_round():
    rows = json.loads(ok("topology", "base", "-n", 10**9, "--node", 5, "--steps", 2, "--json"))
    assert rows == [[0, {"4": "1/2"}], [1, {"7": "1/2"}]]
    assert "receives from" in ok("topology", "base", "-n", 25, "--node", 24)


def test_topology_without_a_name_lists_the_catalogue():
    text = ok("topology")
    assert all(name in text for name in bg.TOPOLOGIES)
    assert set(json.loads(ok("topology", "--json"))) == set(bg.TOPOLOGIES)


def test_random_topologies_show_a_few_rounds():
    printed = json.loads(ok("topology", "one-peer-u-equidyn", "-n", 6, "--seed", 3, "--json"))
    assert printed["period"] is None
    assert len(printed["rounds"]) == 4


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_draw(tmp_path, suffix):
    for spec, n in (("base", 6), ("one-peer-exponential", 5), ("base:k=3", 40), ("ring", 1)):
        path = tmp_path / f"{spec.replace(':', '-')}.{suffix}"
        ok("topology", spec, "-n", n, "--draw", path)
        magic = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[suffix]
        assert path.read_bytes().startswith(magic)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [f".{suffix}"] * 4


def test_drawings_are_the_same_every_time(tmp_path):
    for name in ("a", "b"):
        ok("topology", "base", "-n", 6, "--draw", tmp_path / f"{name}.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"Alg. 3 line 10" in (tmp_path / "a.svg").read_bytes()


def test_verify_counts_what_it_proved():
    assert "24 proved (24 exactly" in ok("verify", "base", "--nodes", "1:12", "--degree", "1:2")
    text = ok("verify", "hyper-hypercube", "-n", "1:12", "-k", "2")
    assert text.startswith("8 proved")
    assert "4 undefined for this n" in text
    assert "proved: base:k=1, n=25: 9 rounds" in ok("verify", "base", "-n", 25)


def test_verify_reports_failures_and_leaves_with_1():
    done = run("verify", "one-peer-exponential", "--nodes", "4,6,8")
    assert done.returncode == 1
    assert "FAILED n=6: one-peer-exponential, n=6: after one period node 0 holds" in done.stdout
    assert "2 proved" in done.stdout
    in_json = run_here("verify", "ring", "-n", "5:6", "--json")
    assert in_json.returncode == 1
    assert [f["n"] for f in json.loads(in_json.stdout)["failed"]] == [5, 6]


def test_lengths(tmp_path):
    plot, table = tmp_path / "l.png", tmp_path / "l.csv"
    text = ok("lengths", "-n", "2:30", "-k", "1:2", "--plot", plot, "--csv", table)
    assert "mean base" in text
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert len(list(csv.DictReader(table.read_text().splitlines()))) == 58
    rows = json.loads(ok("lengths", "-n", "25", "-k", "1:4", "--json"))
    assert [row["base"] for row in rows] == [9, 6, 5, 2]
    assert [row["lower_bound"] for row in rows] == [6, 3, 3, 2]


def test_lengths_that_meet_the_lower_bound():
    text = ok("lengths", "-n", "2:20", "-k", "1", "--topologies", "base,short", "--optimal")
    assert "base, k = 1: at the lower bound for 6 of 19 n\n2, 3, 4, 7, 8, 16\n" in text
    assert "short, k = 1: at the lower bound for 18 of 19 n" in text
    flags = ["-n", "2:20", "-k", "1", "--topologies", "base,short", "--optimal", "--json"]
    answer = json.loads(ok("lengths", *flags))
    assert [len(row["n"]) for row in answer["optimal"]] == [
        int(text.split(f"{name}, k = 1: at the lower bound for ")[1].split()[0])
        for name in ("base", "short")
    ]
    assert len(answer["lengths"]) == 19


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["topology", "base", "-n", "0"], "--nodes='0': must be an integer ≥ 1"),
        (["topology", "base", "-n", "-4"], "--nodes='-4': must be an integer ≥ 1"),
        (["topology", "base", "-n", "2.5"], "--nodes='2.5': must be an integer ≥ 1"),
        (["topology", "base"], "--nodes is missing: it must be an integer ≥ 1"),
        (["lengths", "-n", str(2**63)], f"--nodes={2**63}: must be an integer ≥ 1 and below"),
        (["topology", "base", "-n", "6", "-k", "0"], "--degree='0': must be an integer ≥ 1"),
        (["topology", "base", "-n", "6", "-k", "1.0"], "--degree='1.0': must be an integer"),
        (
            ["topology", "one-peer-hypercube", "-n", "6"],
            "--nodes=6: one-peer-hypercube needs n to be",
        ),
        (["topology", "hyper-hypercube", "-n", "6"], "--nodes=6: hyper-hypercube with k=1 needs n"),
        (["topology", "ring", "-n", "6", "-k", "1"], "--degree=1: ring has no such option"),
        (["topology", "base", "-n", "6", "--seed", "1"], "--seed=1: base has no such option"),
        (["topology", "bsae", "-n", "6"], "topology='bsae': did you mean 'base'"),
        (["topology", "base:z=1", "-n", "6"], "option of base='z'"),
        (["topology", "base", "-n", "6", "--node", "6"], "--node=6: must be a node"),
        (
            ["topology", "base", "-n", "6", "--node", "2", "--properties"],
            "--node=2: cannot be combined with --properties, which describe the whole topology",
        ),
        (
            ["topology", "one-peer-d-equidyn", "-n", "6", "--properties"],
            "NAME='one-peer-d-equidyn': is random and has no period, which --properties require",
        ),
        (["topology", "base", "-n", "6", "--draw", "x.gif"], "--draw='x.gif': must end in .png"),
        (["topology", "base", "-n", "6", "--draw", "no/x.svg"], "the folder 'no' does not exist"),
        (["topology", "base", "-n", "600", "--draw", "x.svg"], "--nodes=600: at most 128 nodes"),
        (["topology", "complete", "-n", "1000000"], "--nodes=1000000: a round of complete has"),
        (["topology", "base", "-n", "6", "--color"], "--color"),
        (
            ["topology", "base", "-n", "6", "--node", "9", "--draw", "x.svg"],
            "--node=9: must be a node",
        ),
        (["topology", "base", "-n", str(10**30)], "must be an integer below"),
        (
            ["topology", "ring", "-n", str(10**22), "--node", "5"],
            "must be an integer below",
        ),
        (["topology", "d-equistatic", "-n", "5", "-k", str(10**9)], "degree=1000000000: must be"),
        (["topology", "one-peer-d-equidyn:eta=1e-400000000", "-n", "5"], "must be a number in"),
        (["topolgy"], "topolgy"),
        (["reproduce"], "Missing command"),
        (["verify", "base", "-n", "1:1000000000"], "must be at most 1000000 numbers"),
        (["verify", "base", "-n", "5", "--method", "freivalds", "--seed", str(2**64)], "seed="),
        (["verify", "one-peer-u-equidyn", "-n", "5"], "is random and has no period to prove"),
        (["verify", "base"], "--nodes"),
        (["verify", "base", "-n", "9:1"], "--nodes='9:1': must be integers ≥ 1"),
        (["verify", "base", "-n", "0:4"], "--nodes='0:4': must be integers ≥ 1"),
        (["verify", "base", "-n", "5", "-k", "x"], "--degree='x': must be integers ≥ 1"),
        (["verify", "base", "-n", "5", "--method", "guess"], "--method='guess'"),
        (["verify", "one-peer-hypercube", "-n", "6"], "--nodes=6: one-peer-hypercube needs"),
        (["lengths", "--topologies", "ring"], "--topologies='ring': not known"),
        (["lengths", "--topologies", ""], "--topologies='': must name some of"),
        (["lengths", "--topologies", "base,,short"], "--topologies='': not known"),
        (["consensus", "--topologies", "base:k=1,"], "--topologies='': not known"),
        (["consensus", "--topologies", " "], "--topologies=' ': must name at least one"),
        (["bench", "model", "--topologies", "ring,"], "--topologies='': not known"),
        (["lengths", "-n", "5", "--plot", "x.txt"], "--plot='x.txt': must end in .png"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(arguments, complaint, tmp_path):
    done = run_here(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_spaces_around_commas_do_not_count():
    flags = ["-n", "6", "--topologies"]
    for command, spaced, plain in (
        (["consensus", "--steps", "3"], "base:k=1, ring ,u-equistatic:degree=2, seed=3",
         "base:k=1,ring,u-equistatic:degree=2,seed=3"),
        (["lengths", "-k", "1"], " base, short", "base,short"),
        (["bench", "model"], "ring, all-reduce-halving", "ring,all-reduce-halving"),
    ):  # fmt: skip
        assert ok(*command, *flags, spaced, "--json") == ok(*command, *flags, plain, "--json")


def test_files_are_not_overwritten_without_force(tmp_path):
    path = tmp_path / "x.svg"
    path.write_text("mine")
    done = run("topology", "base", "-n", 6, "--draw", path)
    assert done.returncode == 2
    assert "exists already; --force overwrites it" in done.stderr
    assert path.read_text() == "mine"
    ok("topology", "base", "-n", 6, "--draw", path, "--force")
    assert path.read_text().startswith("<?xml")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no folder that nobody can write to")
def test_an_unwritable_folder_is_found_out_before_the_work():
    done = run_here("topology", "base", "-n", 6, "--draw", "/proc/x.svg")
    assert done.returncode == 2
    assert "--draw='/proc/x.svg': cannot be written: " in done.stderr


def commands(group, *words):
    """The words of every command, those of groups of commands included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *words, name)
        else:
            yield [*words, name]


@pytest.mark.parametrize("command", list(commands(get_command(app))), ids=" ".join)
def test_help_has_an_example_for_every_command(command):
    assert f"Example: basegraph {' '.join(command)}" in ok(*command, "--help")


def test_version():
    assert ok("--version") == f"basegraph {bg.__version__}\n"


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m basegraph topology base -n 3000 --json | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_no_arguments_show_the_help():
    assert ok(by=run) == ok("--help", by=run)


def test_output_that_cannot_be_written_is_one_line():
    command = f"{sys.executable} -m basegraph topology base -n 5 > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "basegraph: error: [Errno 28] No space left on device\n"


def test_a_terminal_without_unicode_is_served():
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    assert "Alg. 2 line 15" in ok("topology", "base", "-n", 5, by=run, env=env)


def test_a_terminal_gets_a_rich_table():
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "100"}
    assert "┃" in ok("topology", "base", "-n", 5, by=run, env=env)
