"""A few attacks on a job; what must hold, and more of them, is in benchmarks/nemesis.py."""

from __future__ import annotations

import sys

import pytest

from support.forks import run_python
from support.launch import TESTS

NEMESIS = TESTS.parent / "benchmarks" / "nemesis.py"
SOME, OTHERS = "full disk,hang,not a number", "slow,orphans"
"""Each is followed by a start from what it has left; the last one is told to stop."""


@pytest.mark.parametrize("attacks", [SOME, pytest.param(OTHERS, marks=pytest.mark.slow)])
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_nothing_lost_nothing_stale_nothing_half_mixed(attacks):
    done = run_python(NEMESIS, "--seed", "1", "--attacks", attacks, "--timeout", "12")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 violations" in done.stdout
    assert all(f"1 × {name}:" in done.stdout for name in ["terminate", *attacks.split(",")])
