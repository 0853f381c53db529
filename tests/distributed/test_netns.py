"""The benchmark over shaped network namespaces, where the machine allows them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from launch import HERE

BENCHMARKS = HERE.parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import netns  # noqa: E402


def start(*arguments, **settings):
    return subprocess.Popen(
        [sys.executable, str(BENCHMARKS / "distributed.py"), "--netns", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **settings},
    )


def allowed() -> bool:
    try:
        netns.enclosed(["true"])
    except netns.NoNamespaces:
        return False
    return True


def named() -> str:
    if shutil.which("ip") is None:
        return ""
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("arguments", "settings", "complaint"),
    [
        ([], {"PATH": ""}, "no network namespaces here: unshare is not installed"),
        (["--rate", "fast"], {}, "--rate='fast': must be bits or bytes per second"),
        (["--delay", "5"], {}, "--delay='5': must be a time such as 5ms"),
    ],
)
def test_refusals_are_one_line(arguments, settings, complaint):
    process = start(*arguments, **settings)
    out, errors = process.communicate(timeout=100)
    assert process.returncode == 2
    assert errors.startswith(complaint)
    assert errors.count("\n") == 1
    assert out == ""


@pytest.mark.skipif(not allowed(), reason="no network namespaces here")
def test_measures_over_shaped_links_and_leaves_nothing_behind():
    before = named()
    process = start("--rate", "50mbit", "--ranks", "2", "--models", "lenet", "--rounds", "1")
    out, errors = process.communicate(timeout=170)
    assert process.returncode == 0, errors[-2000:]
    raw = re.search(r"2\s+lenet\s+raw\s+([\d.]+)", out)
    assert raw is not None
    assert float(raw.group(1)) > 20  # ms for 178 kB; a loopback without shape takes about one
    assert named() == before


@pytest.mark.skipif(not allowed(), reason="no network namespaces here")
def test_an_interrupted_run_leaves_nothing_behind():
    before = named()
    process = start("--rate", "1mbit", "--ranks", "2", "--models", "vgg11")
    assert process.stdout is not None
    while "ranks" not in process.stdout.readline():
        pass
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert named() == before
