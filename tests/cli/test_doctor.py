"""`basegraph doctor`, and completion in bash."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from basegraph.cli import doctor
from basegraph.extras import DISTRIBUTIONS, EXTRAS
from basegraph.topologies.catalog import TOPOLOGIES
from support.cli import ok, run_here


def test_doctor_knows_every_extra():
    found = json.loads(ok("doctor", "--json"))
    assert found["core"]["works"]
    assert found["core"]["said"].startswith("base:k=1, n=25: 9 rounds")
    assert found["torch"]["backends"]["gloo"]
    assert found["extras"].keys() == set(EXTRAS.values())
    for extra, entry in found["extras"].items():
        missing = [name for name, version in entry["packages"].items() if version is None]
        assert entry["install"] == (f"pip install 'basegraph[{extra}]'" if missing else None)


def test_doctor_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(doctor, "is_installed", lambda package: package == "matplotlib")
    printed = ok("doctor")
    assert "torch missing, safetensors missing" in printed
    assert "pip install 'basegraph[train]'" in printed
    assert "pip install 'basegraph[plots]'" not in printed
    assert {DISTRIBUTIONS.get(name, name) for name in EXTRAS} <= set(
        printed.replace(",", " ").split()
    )


def test_doctor_fails_where_the_core_does_not_work(monkeypatch):
    def broken():
        raise ImportError("numpy.core.multiarray failed to import")

    monkeypatch.setattr(doctor, "_proof", broken)
    done = run_here("doctor")
    assert done.returncode == 1
    assert "the core does not work: ImportError: numpy.core.multiarray failed" in done.stdout


def completed(*words: str) -> set[str]:
    """What bash offers after these words, the last of which is not complete."""
    program = Path(sys.executable).with_name("basegraph")
    bash = shutil.which("bash")
    if bash is None or not program.is_file():
        pytest.skip("needs bash, and the command basegraph beside python")
    line = " ".join(shlex.quote(word) for word in ("basegraph", *words))
    script = f"""
        PATH={shlex.quote(str(program.parent))}:$PATH
        source <(_BASEGRAPH_COMPLETE=source_bash basegraph)
        COMP_WORDS=({line}) COMP_CWORD={len(words)}
        _basegraph_completion basegraph
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        [bash, "-c", script], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    return set(done.stdout.split())


def test_bash_completes_commands_topologies_and_algorithms():
    assert completed("to") == {"topology"}
    assert completed("topology", "one-peer-") == {n for n in TOPOLOGIES if n[:9] == "one-peer-"}
    assert completed("train", "--algorithm", "qg") == {"qg-dsgdm", "qg-dsgdm-published"}
