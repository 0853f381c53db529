"""Ten events in a live job; more of them, and their cost, are in benchmarks/live.py."""

from __future__ import annotations

import re
import sys

import pytest

from support.forks import run_python
from support.launch import TESTS

LIVE = TESTS.parent / "benchmarks" / "live.py"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("events", [5, pytest.param(10, marks=pytest.mark.slow)])
def test_events_without_a_hang(events):
    pytest.importorskip("torchft")
    done = run_python(
        *(LIVE, "--events", str(events), "--nodes", "5", "--heartbeat", "4"),
        *("--seeds", "0", "--no-torchrun"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hangs    0" in done.stdout
    assert sum(map(int, re.findall(r"(\d+) × ", done.stdout))) == events
    assert float(re.search(r"test accuracy (0\.\d+)", done.stdout).group(1)) > 0.8
    assert "Traceback" not in done.stderr
