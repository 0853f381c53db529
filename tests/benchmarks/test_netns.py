"""The benchmark over shaped network namespaces, where the machine allows them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from support.forks import run_python
from support.launch import TESTS

BENCHMARKS = TESTS.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import distributed  # noqa: E402
import netns  # noqa: E402

IN_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""What a shell does to a command that it starts in the background: SIGINT is ignored."""


def start(*arguments, before=(), **settings):
    return subprocess.Popen(
        [*before, sys.executable, str(BENCHMARKS / "distributed.py"), "--netns", *arguments],
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
    done = run_python(BENCHMARKS / "distributed.py", "--netns", *arguments, **settings)
    assert done.returncode == 2
    assert done.stderr.startswith(complaint)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.skipif(not allowed(), reason="no network namespaces here")
def test_measures_over_shaped_links_and_leaves_nothing_behind():
    before = named()
    process = start(
        "--rate", "50mbit", "--ranks", "2", "--models", "lenet", "--rounds", "1", "--wires", "bf16"
    )
    out, errors = process.communicate()
    assert process.returncode == 0, errors[-2000:]
    raw = re.search(r"2\s+lenet\s+raw\s+([\d.]+)", out)
    assert raw is not None
    assert float(raw.group(1)) > 20  # ms for 178 kB; a loopback without shape takes about one
    assert named() == before


def processes_with(variable: str) -> list[int]:
    """The processes in whose environment there is this NAME=VALUE."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                processes.append(int(folder.name))
        except OSError:  # gone already, or somebody else's
            continue
    return processes


@pytest.mark.skipif(not allowed(), reason="no network namespaces here")
@pytest.mark.parametrize("ranks_started", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_interrupted_run_leaves_nothing_behind(ranks_started):
    before = named()
    mark = {"NETNS_TEST": str(uuid4())}
    of_this_test = "NETNS_TEST=" + mark["NETNS_TEST"]
    flags = ["--rate", "1mbit", "--ranks", "2", "--models", "vgg11"]
    process = start(*flags, before=IN_BACKGROUND, **mark)
    try:
        assert process.stdout is not None
        while "ranks" not in process.stdout.readline():
            pass
        while ranks_started and not set(processes_with("RANK=1")) & set(
            processes_with(of_this_test)
        ):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        assert (process.returncode, errors) == (130, "")
        assert named() == before
        assert processes_with(of_this_test) == []
    finally:
        for left in processes_with(of_this_test):
            os.kill(left, signal.SIGKILL)
        process.communicate()


def test_a_signal_while_ranks_are_started_leaves_none_behind(monkeypatch):
    started = []

    class InterruptedPopen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(distributed.subprocess, "Popen", InterruptedPopen)
    waiting = ["sh", "-c", "exec sleep 1000"]
    with pytest.raises((SystemExit, KeyboardInterrupt)) as ended:
        distributed.ranks_of(2, [waiting, waiting], "127.0.0.1", "lo")
    alive = [process for process in started if process.poll() is None]
    for process in alive:
        process.kill()
    assert alive == []
    assert ended.value.code == 130
