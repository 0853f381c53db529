"""The consensus laboratory: commands, files, and numbers recomputed with dense matrices."""

from __future__ import annotations

import csv
import json
from fractions import Fraction

import numpy as np
import pytest

import basegraph as bg
from basegraph.experiments import illustrations
from basegraph.experiments.consensus import FIGURES, equivalences, same_rounds
from basegraph.experiments.illustrations import DRAWINGS
from basegraph.experiments.table import comparison, convergence
from basegraph.topologies.analysis._gossip import gaussian_start
from support.cli import ok, run_here


def read(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def dense_errors(spec, n, seed, steps):
    t, x = bg.topology(spec, n=n), gaussian_start(n, seed)
    errors = []
    for step in range(steps + 1):
        errors.append(np.mean((x - x.mean()) ** 2))
        x = t.round(step).matrix().toarray() @ x
    return errors


def test_consensus_command(tmp_path):
    plot, table = tmp_path / "c.png", tmp_path / "c.csv"
    specs = "base:k=1,u-equistatic:degree=2,seed=3,one-peer-d-equidyn"
    arguments = ["-n", "9,25", "--topologies", specs, "--steps", 12, "--seed", "0:2"]
    text = ok("consensus", *arguments, "--plot", plot, "--csv", table)
    assert "median of 3 starts" in text
    assert plot.read_bytes().startswith(b"\x89PNG")
    rows = read(table)
    assert len(rows) == 2 * 3 * 3 * 13
    for n in (9, 25):
        for spec in dict.fromkeys(row["topology"] for row in rows):
            for seed in (0, 2):
                errors = [
                    float(row["error"])
                    for row in rows
                    if (row["n"], row["topology"], row["seed"]) == (str(n), spec, str(seed))
                ]
                assert np.allclose(errors, dense_errors(spec, n, seed, 12), rtol=1e-9, atol=1e-30)
    assert len(json.loads(ok("consensus", *arguments, "--json"))) == len(rows)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--topologies", ""], "--topologies='': must name at least one topology"),
        (["--topologies", ",,"], "--topologies=',,': must name at least one"),
        (["--topologies", "base,rong"], "--topologies='rong': did you mean 'ring'"),
        (["--topologies", "base:k=0"], "k=0: must be an integer ≥ 1"),
        (["--steps", "-1"], "--steps='-1': must be an integer ≥ 0"),
        (["--nodes", "0"], "--nodes='0': must be integers ≥ 1"),
        (["--nodes", str(2**61), "--topologies", "ring"], f"--nodes={2**61}: the nodes' values"),
        (["--seed", "-1"], "--seed='-1': must be integers ≥ 0"),
        (["--csv", "no/c.csv"], "the folder 'no' does not exist"),
        (["--plot", "c.jpeg"], "--plot='c.jpeg': must end in .png"),
        (
            ["--nodes", "6", "--topologies", "one-peer-hypercube"],
            "--nodes=6: one-peer-hypercube needs",
        ),
    ],
)
def test_consensus_mistakes(arguments, complaint, tmp_path):
    done = run_here("consensus", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_reproduce_consensus(tmp_path):
    out = tmp_path / "new" / "folder"
    text = ok("reproduce", "consensus", "--out", out, "--seed", "0:1")
    assert "checked: n=24: base:k=3 is the same as base:k=4" in text
    names = {path.name for path in out.iterdir()}
    for figure in FIGURES:
        assert {f"{figure.name}.{s}" for s in ("csv", "png", "svg")} <= names
    rows = read(out / "consensus-21-25.csv")
    assert not any(row["n"] == "24" and row["topology"] == "base:k=4" for row in rows)
    for spec in ("base:k=2", "torus"):
        errors = [
            float(row["error"])
            for row in rows
            if (row["n"], row["topology"], row["seed"]) == ("23", spec, "1")
        ]
        assert np.allclose(errors, dense_errors(spec, 23, 1, 40), rtol=1e-9, atol=1e-30)
    large = read(out / "consensus-5000.csv")
    base = [float(r["error"]) for r in large if (r["topology"], r["seed"]) == ("base:k=1", "0")]
    assert base[22] < 1e-28
    assert base[21] > 1e-9
    origin = json.loads((out / "provenance.json").read_text())
    assert origin["command"].startswith("basegraph reproduce consensus --out")
    assert {"commit", "machine", "data", "python", "numpy", "basegraph"} <= set(origin)
    again = run_here("reproduce", "consensus", "--out", out)
    assert again.returncode == 2
    assert "exists already; --force overwrites it" in again.stderr


def test_reproduce_lengths(tmp_path):
    ok("reproduce", "lengths", "--out", tmp_path)
    rows = read(tmp_path / "lengths.csv")
    assert len(rows) == 9 * 199
    assert all(int(r["base"]) <= int(r["simple-base"]) <= int(r["theorem_1"]) for r in rows)


def drawn(folder):
    """The names of what `reproduce illustrations` draws there, each of both kinds."""
    ok("reproduce", "illustrations", "--out", folder)
    kinds = [{p.stem for p in folder.glob(f"*.{kind}")} for kind in ("png", "svg")]
    assert kinds[0] == kinds[1]
    return kinds[0]


def test_reproduce_illustrations_of_few_nodes(tmp_path, monkeypatch):
    few = [(spec, n) for spec, n in DRAWINGS if n <= 4]
    names = [illustrations.file_name(spec, n, kind) for spec, n in few for kind in ("png", "svg")]
    monkeypatch.setattr(illustrations, "DRAWINGS", few)
    monkeypatch.setattr(illustrations, "OUTPUTS", names)
    pictures = drawn(tmp_path / "drawn")
    assert len(DRAWINGS) == 42
    assert len(pictures) == len(few) == 11
    assert {"hyper-hypercube-k2-n4", "base-k1-n3", "one-peer-exponential-n4"} < pictures


@pytest.mark.slow
def test_reproduce_illustrations(tmp_path):
    names = drawn(tmp_path / "drawn")
    assert len(names) == len(DRAWINGS) == 42
    assert "hyper-hypercube-k2-n12" in names


def test_reproduce_refuses_a_folder_it_cannot_make(tmp_path):
    (tmp_path / "file").write_text("")
    done = run_here("reproduce", "lengths", "--out", tmp_path / "file" / "x")
    assert done.returncode == 2
    assert "cannot be made" in done.stderr


def test_equivalences_are_checked_not_assumed():
    assert same_rounds("base:k=3", "base:k=4", 24)
    assert not same_rounds("base:k=3", "base:k=4", 25)
    assert not same_rounds("base:k=1", "base:k=2", 6)
    assert equivalences([21, 22, 23, 25]) == []


def test_comparison_table_measures():
    rows = {row["topology"]: row for row in comparison(25, parameters=1000)}
    assert "one-peer-hypercube" not in rows
    assert rows["base:k=1"]["finite-time"] == "yes, proved"
    assert rows["base:k=1"]["bytes to consensus"] == 9 * 4000
    assert rows["one-peer-exponential"]["finite-time"] == "no"
    assert rows["ring"]["rate per round"] == pytest.approx((1 + 2 * np.cos(2 * np.pi / 25)) / 3)
    # The rounds that β promises are enough from any start.
    for spec in ("ring", "one-peer-exponential", "torus"):
        errors = bg.consensus_error(
            bg.topology(spec, n=25), gaussian_start(25, 1), rows[spec]["rounds to consensus"]
        )
        assert errors[-1] <= 1.01e-12 * errors[0]
    t = bg.topology("base:k=2", n=25)
    row = rows["base:k=2"]
    assert row["D(0.05)"] == bg.training_disagreement(t, 0.05)
    assert row["D(0.005)"] == bg.training_disagreement(t, 0.005)
    assert row["noise"] == bg.noise_disagreement(t)
    assert (row["mean pair weight"], Fraction(row["largest pair weight"])) == bg.pair_weights(t)
    powers = {row["topology"]: row for row in comparison(16, parameters=1)}
    assert powers["one-peer-hypercube"]["rounds to consensus"] == 4


def test_convergence_table_is_the_formula():
    rows = {row["topology"]: row for row in convergence(16, epsilon=0.01, sigma=2, zeta=3)}
    noise = 4 / (16 * 1e-4)

    def rounds(a):
        return noise + (3 * a + 2 * a**0.5) / 1e-3 + a / 0.01

    for spec, order in (("ring", 256), ("base:k=3", 2)):
        row = rows[spec]
        assert row["A, constants dropped"] == pytest.approx(order)
        assert row["rounds, constants dropped"] == pytest.approx(rounds(order))
        assert row["τ/p"] == bg.consensus_delay(bg.topology(spec, n=16))
        assert row["rounds with τ/p"] == pytest.approx(rounds(row["τ/p"]))
        terms = row["noise term"] + row["heterogeneity term"] + row["last term"]
        assert row["rounds with τ/p"] == pytest.approx(terms)


def test_measured_delays_order_the_topologies():
    measured = {row["topology"]: row["τ/p"] for row in comparison(25, parameters=1)}
    known = {
        "exponential": 1.35,
        "base:k=4": 2,
        "torus": 2.1,
        "one-peer-exponential": 5.2,
        "base:k=1": 9,
        "ring": 24,
    }
    for spec, delay in known.items():
        assert measured[spec] == pytest.approx(delay, rel=0.01)
    by_rounds = {row["topology"]: row for row in convergence(25, epsilon=0.01, sigma=1, zeta=1)}
    rounds = [by_rounds[spec]["rounds with τ/p"] for spec in known]
    assert rounds == sorted(rounds)
    # The paper states no rate of one-peer-exponential but for powers of two.
    assert by_rounds["one-peer-exponential"]["rounds, constants dropped"] is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--epsilon", "0"], "--epsilon=0.0: must be a number from 1e-30 to 1e30"),
        (["--sigma", "-1"], "--sigma=-1.0: must be a number from 0 to 1e30"),
        (["--zeta", "nan"], "--zeta=nan: must be a number from 0 to 1e30"),
        (["--sigma", "inf"], "--sigma=inf: must be a number from 0 to 1e30"),
        (["--parameters", "1" + "0" * 40], "--parameters="),
        (["--zeta", "much"], "--zeta='much': must be a number"),
        (["--nodes", "1"], "--nodes='1': must be an integer ≥ 2"),
        (["--nodes", str(2**64 - 1)], f"--nodes={2**64 - 1}: must be an integer ≥ 1 and below"),
        (["--parameters", "0"], "--parameters='0': must be an integer ≥ 1"),
    ],
)
def test_table_mistakes(arguments, complaint, tmp_path):
    done = run_here("reproduce", "table", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_reproduce_table_prints_and_writes(tmp_path):
    text = ok("reproduce", "table", "--out", tmp_path / "t")
    assert "yes, proved" in text
    assert "None of these is a verdict" in text
    assert "constants dropped say how rounds grow with n" in text
    assert {p.name for p in (tmp_path / "t").iterdir()} == {
        "comparison.csv",
        "convergence.csv",
        "provenance.json",
    }
