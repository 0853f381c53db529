"""`basegraph launch`: a lighthouse and nodes on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from basegraph.engines.distributed import launcher
from support.cli import run_here
from support.forks import Forked
from support.launch import environment

SCRIPT = """
import sys, time
from pathlib import Path
import torch
import basegraph as bg

net = torch.nn.Linear(3, 1)
optimizer = bg.Gossip(torch.optim.SGD(net.parameters(), lr=0.01), membership="live")
print(f"begins at {optimizer.gossip_step}", flush=True)
end = Path(sys.argv[1])
while not end.exists() or optimizer.gossip_step < int(end.read_text() or sys.maxsize):
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    if optimizer.gossip_step % 20 == 0:
        print(f"step {optimizer.gossip_step} of {len(optimizer.members)}", flush=True)
"""


class Launched:
    """`basegraph launch WORDS` in the background; its nodes may be forks, as it is itself."""

    def __init__(self, folder, *words, forks=True):
        self.log = folder / "log"
        if forks:
            self.log.touch()
            self.process = Forked("basegraph launch", list(map(str, words)), self.log)
            return
        with open(self.log, "w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-m", "basegraph", "launch", *words],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment(),
                cwd=folder,
            )

    def wait_for(self, pattern, times=1):
        while True:
            text = self.log.read_text()
            matches = re.findall(pattern, text)
            if len(matches) >= times:
                return matches
            assert self.process.poll() is None, text[-3000:]
            time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()


@pytest.mark.parametrize("forks", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_node_that_dies_is_replaced_and_the_job_ends(forks, tmp_path):
    pytest.importorskip("torchft")
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ["--nodes", "2", tmp_path / "train.py", tmp_path / "end"]
    with Launched(tmp_path, *words, forks=forks) as job:
        job.wait_for(r"step \d+ of 2", times=2)
        (victim,) = job.wait_for(r"node-1 is process (\d+)")
        os.kill(int(victim), signal.SIGKILL)
        job.wait_for(rf"node-1 \(process {victim}\) was ended by SIGKILL: starting a replacement")
        job.wait_for(r"2 nodes from step \d+ on; joined: node-1-")
        assert int(job.wait_for(r"begins at ([1-9]\d*)")[0]) > 0
        steps = [int(step) for step in job.wait_for(r"step (\d+) of 2")]
        (tmp_path / "end").write_text(str(max(steps) + 200))
        assert job.process.wait() == 0, job.log.read_text()


def test_signals_reach_the_nodes(tmp_path):
    pytest.importorskip("torchft")
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ["--nodes", "2", "--no-replace", tmp_path / "train.py", tmp_path / "end"]
    with Launched(tmp_path, *words) as job:
        job.wait_for(r"step \d+ of 2", times=2)
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait() == 128 + signal.SIGTERM
        for pid in job_nodes(job):
            assert not Path(f"/proc/{pid}").exists()


def job_nodes(job):
    return re.findall(r"is process (\d+)", job.log.read_text())


def test_a_script_that_fails_at_once_is_not_started_again_and_again(tmp_path):
    pytest.importorskip("torchft")
    (tmp_path / "train.py").write_text("raise SystemExit(3)")
    with Launched(tmp_path, "--nodes", "2", "train.py", forks=False) as job:
        assert job.process.wait() == 3
        assert "failed with 3" in job.log.read_text()
        assert "replaced" not in job.log.read_text()


def test_a_job_that_all_nodes_fail_in_is_not_started_again(monkeypatch):
    """As where the training has diverged, after a long time."""
    pytest.importorskip("torchft")
    monkeypatch.setattr(launcher, "QUICK", 0.0)
    monkeypatch.setattr(launcher, "GRACE", 30.0)
    lines: list[str] = []
    script = "import os, time; time.sleep(int(os.environ['BASEGRAPH_NODE'][-1])); os._exit(3)"
    assert launcher.Launcher(["-c", script], 2, say=lines.append).run() == 3
    assert [line for line in lines if "replaced" in line] == []
    assert sum("failed with 3" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nodes", "0", "x.py"], "--nodes='0': must be an integer ≥ 1"),
        (["x.py"], "--nodes is missing"),
        (["--nodes", "2", "x.py"], "SCRIPT='x.py': there is no such file"),
        (["--nodes", "2", "--heartbeat-timeout", "0", __file__], "--heartbeat-timeout=0.0: must"),
        (
            ["--nodes", "2", "-m", "basegraph", "train", "--out", "runs/x"],
            "ARGS='train --out runs/x': must be train --engine distributed: other commands would",
        ),
    ],
)
def test_wrong_arguments_are_one_line(words, message):
    pytest.importorskip("torchft")
    done = run_here("launch", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
