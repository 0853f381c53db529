"""The core without any extra: what works, and the one line that what does not work gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from basegraph.extras import DISTRIBUTIONS, EXTRAS, MissingExtra, optional_imports, require

ROOT = Path(__file__).resolve().parents[1]

BLOCKER = f"""
from importlib.machinery import PathFinder

find = PathFinder.find_spec

def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in {sorted(EXTRAS)!r} else find(name, path, target)

PathFinder.find_spec = find_spec
"""
"""A sitecustomize module: the optional packages are not found on any path."""

WORKS = [
    "topology",
    "topology base -n 6 -k 1",
    "topology base -n 1000000 --node 7 --json",
    "verify base -n 2:30 -k 1:3",
    "lengths -n 2:20 -k 1:2 --csv lengths.csv",
    "consensus -n 5 --steps 9 --csv consensus.csv",
    "explore --out page.html -n 6",
    "bench model -n 8",
    "advise -n 8 --bandwidth 1Gbit --model-size 9.2M --step-time 50ms",
    "data check",
    "reproduce table --out table -n 8",
    "doctor",
    "--version",
]
HELP = [
    *[
        "",
        "advise",
        "topology",
        "verify",
        "lengths",
        "consensus",
        "explore",
        "train",
        "sweep",
        "compare",
    ],
    *["reproduce", "reproduce consensus", "reproduce lengths", "reproduce illustrations"],
    *["reproduce table", "reproduce mnist", "reproduce pairs"],
    *["data", "data check", "data download", "bench", "bench model", "export"],
    *["launch", "sample", "reproduce language", "watch", "report", "doctor"],
]
NEEDS = {
    "train --out run --epochs 1": "torch",
    "launch --nodes 2 train.py": "torch",
    "sweep sweep.toml --out runs": "torch",
    "export run --out model.safetensors": "safetensors",
    "sample run": "torch",
    "reproduce mnist --out mnist": "torch",
    "reproduce pairs --out pairs": "torch",
    "reproduce language --out language": "torch",
    "topology base -n 6 --draw base.svg": "matplotlib",
    "lengths -n 2:5 -k 1 --plot lengths.png": "matplotlib",
    "consensus -n 5 --plot consensus.png": "matplotlib",
    "bench model -n 8 --plot cost.png": "matplotlib",
    "reproduce consensus --out consensus": "matplotlib",
    "reproduce lengths --out lengths": "matplotlib",
    "reproduce illustrations --out illustrations": "matplotlib",
}
COMMANDS = """
import contextlib, io, json, sys
from basegraph.cli import main

answers = {}
for line in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(line.split())
        except SystemExit as left:
            answers[line] = [left.code, out.getvalue(), err.getvalue()]
print(json.dumps(answers))
"""
PYTHON = """
import inspect, pydoc, sys
import basegraph as bg
import basegraph.data, basegraph.plots, basegraph.training

print(bg.verify(bg.topology("base:k=1", n=5)))
print(bg.algorithm("dsgdm").name, bg.RunConfig(nodes=5).nodes)
missing = sorted(set(bg.__all__) - set(dir(bg)))
print(missing)
assert "consensus_error" in pydoc.render_doc(bg) and inspect.getmembers(basegraph.plots)
assert inspect.getmembers(basegraph.training)
for ask in (
    *[lambda name=name: getattr(bg, name) for name in missing],
    lambda: basegraph.data.load("digits"),
    lambda: basegraph.plots.draw_rounds,
    lambda: __import__("basegraph.models"),
    lambda: __import__("basegraph.optim"),
):
    try:
        ask()
    except ImportError as error:
        assert isinstance(error, bg.MissingExtra) and isinstance(error, bg.BasegraphError)
        print(error)
try:
    from basegraph import train
except ImportError as error:
    print(error)
assert not any(name in sys.modules for name in ("torch", "matplotlib"))
"""


def line_for(package: str) -> str:
    return f"this needs {package}: pip install 'basegraph[{EXTRAS[package]}]'"


def without_extras(code: str, folder: Path, stdin: str = "") -> str:
    """What Python code prints in a process that cannot import the optional packages."""
    (folder / "blocker").mkdir()
    (folder / "blocker" / "sitecustomize.py").write_text(BLOCKER)
    path = os.pathsep.join([str(folder / "blocker"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_without_extras(tmp_path):
    (tmp_path / "sweep.toml").write_text("[grid]\nseed = [0]\n")
    lines = [*WORKS, *[f"{command} --help" for command in HELP], *NEEDS]
    answers = json.loads(without_extras(COMMANDS, tmp_path, json.dumps(lines)))
    for line in lines:
        code, out, err = answers[line]
        if line in NEEDS:
            assert (code, err) == (2, f"basegraph: error: {line_for(NEEDS[line])}\n"), line
        else:
            assert (code, err) == (0, ""), line
            assert out, line
    assert str(MissingExtra("sklearn")) in answers["data check"][1]


def test_python_without_extras(tmp_path):
    proof, config, missing, *errors = without_extras(PYTHON, tmp_path).splitlines()
    assert proof.startswith("base:k=1, n=5: ")
    assert config == "dsgdm 5"
    checkpoints = ["Restored", "load_checkpoint", "save_averaged", "save_checkpoint"]
    trained = ["DecentralizedOptimizer", "Gossip", "export", "sample", "train", *checkpoints]
    assert missing == str(sorted(trained))
    torch, sklearn = line_for("torch"), str(MissingExtra("sklearn"))
    assert errors == [torch] * len(trained) + [sklearn, line_for("matplotlib"), torch, torch, torch]


PROJECT = ("all", "dev", "docs")
"""Extras that no code of the package asks for."""


def test_extras_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(requirements: list[str]) -> set[str]:
        return {r.partition(">=")[0] for r in requirements if not r.startswith("basegraph[")}

    extras = {name: names(r) for name, r in project["optional-dependencies"].items()}
    named: dict[str, set[str]] = {}
    for package, extra in EXTRAS.items():
        named.setdefault(extra, set()).add(DISTRIBUTIONS.get(package, package))
    assert named == {name: needed for name, needed in extras.items() if name not in PROJECT}
    assert names(project["dependencies"]) == {"networkx", "numpy", "rich", "scipy", "typer"}


def test_other_missing_modules_stay_what_they_are():
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as error, optional_imports():
        import no_such_module  # noqa: F401
    assert not isinstance(error.value, MissingExtra)
    require("torch")
