"""A run whose nodes join and leave: one folder, whoever is node 0, with every row."""

from __future__ import annotations

import json
import re
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest
from safetensors.torch import load_file

from basegraph.training.folder import RunFolder
from support.cli import ok, run_here
from support.forks import Forked
from support.live import LiveJob

EPOCHS, EVERY = 120, 20
"""Of two steps or more: more than a minute for a slow run, a second for one that is let go."""


class Run:
    """A lighthouse and the nodes of one run in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "run"
        self.let_go = folder / "let go"
        (folder / "log").touch()
        self.lighthouse = LiveJob(folder, 0)
        self.nodes: dict[str, Forked] = {}

    def __enter__(self) -> Run:
        self.lighthouse.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        for node in self.nodes.values():
            node.kill()
            node.wait()
        self.lighthouse.__exit__(*exception)

    def add(self, name: str, *flags: str, expected: int = 0, job: str = "job") -> Forked:
        environment = {
            "TORCHFT_LIGHTHOUSE": self.lighthouse.address,
            "BASEGRAPH_NODE": name,
            "BASEGRAPH_NODES": str(expected),
            "BASEGRAPH_JOB": job,
        }
        words = ["live_train.py", str(self.let_go), "--out", str(self.out)]
        words += flags or (f"--epochs={EPOCHS}", f"--evaluate-every={EVERY}", "--batch=256")
        log = self.folder / "log"
        self.nodes[name] = Forked("python", words, log, log, environment)
        return self.nodes[name]

    def start(self, n: int, *flags: str, job: str = "job") -> None:
        for number in range(n):
            self.add(f"node-{number}", *flags, expected=n, job=job)

    def said(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def wait_for(self, pattern: str, times: int = 1) -> None:
        """However long that takes, unless all nodes have ended."""
        while len(re.findall(pattern, self.said())) < times:
            ended = all(node.poll() is not None for node in self.nodes.values())
            assert not ended or re.search(pattern, self.said()), self.said()[-3000:]
            time.sleep(0.05)

    def kill(self, *names: str) -> None:
        for name in names:
            self.nodes[name].kill()
            self.nodes[name].wait()

    def end(self) -> None:
        """Let all nodes go on quickly, to the end."""
        self.let_go.touch()
        codes = {name: node.wait() for name, node in self.nodes.items()}
        assert set(codes.values()) == {0}, (codes, self.said()[-3000:])
        assert "Traceback" not in self.said()

    def forget(self) -> None:
        """Begin with another lighthouse, which does not wait for nodes that have ended."""
        self.nodes.clear()
        self.lighthouse.kill_lighthouse()
        self.lighthouse.start_lighthouse()

    def rows(self) -> list[int]:
        return [row["epoch"] for row in RunFolder(self.out, resume=True).rows()]

    def changes(self) -> list[dict[str, object]]:
        lines = (self.out / "restarts.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def run(tmp_path):
    pytest.importorskip("torchft")
    with Run(tmp_path) as run:
        yield run


def names(members):
    return [name[: len("node-0")] for name in members]


def test_nodes_that_die_are_replaced_also_node_0(run):
    run.start(3)
    run.wait_for("samples per node")
    run.kill("node-0", "node-1")
    run.wait_for("1 nodes from step")
    run.add("node-0")
    run.wait_for("2 nodes from step")
    run.add("node-1")
    run.wait_for(r"3 nodes from step [1-9]")
    run.end()
    assert run.rows() == list(range(EVERY, EPOCHS + 1, EVERY))
    changes = run.changes()
    assert [(change["nodes_before"], change["nodes"]) for change in changes] == [
        *((3, 1), (1, 2), (2, 3))
    ]
    assert names(changes[0]["left"]) == ["node-0", "node-1"]
    assert names(changes[1]["joined"]) == ["node-0"]
    for before, after in pairwise(changes):
        assert before["members"] == after["members_before"]
        assert before["epoch"] <= after["epoch"]
    assert load_file(run.out / "checkpoint.safetensors")["x"].shape[0] == 3
    assert "nodes = 3" in (run.out / "config.toml").read_text()
    assert not (run.out / ".lock").exists()
    assert "run" in ok("compare", run.out)
    assert run.said().count("done: test accuracy") == 1


def test_a_signal_stops_all_and_another_number_of_nodes_resumes(run):
    run.start(2)
    run.wait_for("samples per node")
    for node in run.nodes.values():
        node.send_signal(signal.SIGTERM)
    codes = [node.wait() for node in run.nodes.values()]
    assert codes == [128 + signal.SIGTERM] * 2, run.said()[-3000:]
    assert run.said().count("stopped by SIGTERM after step") == 1
    assert load_file(run.out / "checkpoint.safetensors")["x"].shape[0] == 2
    run.forget()
    run.start(1, "--resume", job="another")
    run.wait_for(r"from the average of 2 of 2 nodes.*now 1 nodes: .*n=1")
    run.end()
    assert run.rows() == list(range(EVERY, EPOCHS + 1, EVERY))
    (change,) = run.changes()
    assert (change["nodes_before"], change["nodes"]) == (2, 1)


@pytest.mark.slow
def test_a_job_goes_on_with_its_own_run_when_all_nodes_have_died(run):
    run.let_go.touch()
    run.start(2, "--epochs=100000", "--evaluate-every=20", "--batch=256")
    run.wait_for("epoch 40:")
    run.kill("node-0", "node-1")
    before = run.rows()
    run.let_go.unlink()
    run.add("node-0", "--epochs=100000", "--evaluate-every=20", "--batch=256", job="another").wait()
    assert "holds a run already: resume it" in run.said()
    run.add("node-1", "--epochs=100000", "--evaluate-every=20", "--batch=256")
    run.wait_for(r"from the average of 2 of 2 nodes, at epoch [1-9]\d")
    run.kill("node-1")
    assert run.rows()[:2] == before[:2] == [20, 40]


def test_a_finished_run_is_finished(run):
    run.let_go.touch()
    flags = ("--epochs=2", "--batch=256")
    run.start(2, *flags)
    run.end()
    before = {path.name: path.read_bytes() for path in run.out.iterdir() if path.is_file()}
    run.forget()
    assert run.add("node-0", *flags).wait() == 0
    assert run.said().count("done: test accuracy") == 2
    assert before == {p.name: p.read_bytes() for p in run.out.iterdir() if p.is_file()}


@pytest.mark.slow
def test_node_0_that_hangs_leaves_the_folder_to_another_and_comes_back(run):
    run.start(3)
    run.wait_for("samples per node")
    run.nodes["node-0"].send_signal(signal.SIGSTOP)
    run.wait_for("2 nodes from step")
    run.wait_for("samples per node", times=2)  # node 1 has taken over
    run.nodes["node-0"].send_signal(signal.SIGCONT)
    run.wait_for(r"3 nodes from step [1-9]")
    run.end()
    assert run.rows() == list(range(EVERY, EPOCHS + 1, EVERY))
    assert [change["nodes"] for change in run.changes()] == [2, 3]


@pytest.mark.slow
def test_a_node_that_is_left_behind_alone_goes_on_from_the_checkpoint(run):
    """The others have gone on while it hung, and have died since."""
    flags = ("--epochs=100000", "--evaluate-every=20", "--batch=256")
    run.let_go.touch()
    run.start(2, *flags)
    run.wait_for("epoch 20:")
    run.nodes["node-1"].send_signal(signal.SIGSTOP)
    run.wait_for("1 nodes from step")
    run.wait_for(r"epoch \d+00:", times=2)
    run.kill("node-0")
    before = run.rows()
    run.nodes["node-1"].send_signal(signal.SIGCONT)
    run.wait_for("1 nodes from step", times=2)
    run.wait_for("samples per node", times=2)
    run.wait_for(rf"epoch {before[-1] + 40}:")
    run.kill("node-1")
    rows = run.rows()
    assert rows == list(range(20, rows[-1] + 1, 20))
    assert run.said().count(f"epoch {before[-1] - 20}:") == 1  # made once


ELSEWHERE = {"TORCHFT_LIGHTHOUSE": "http://127.0.0.1:9", "BASEGRAPH_JOB": "job"}
MISTAKES = {
    "topology": (
        ["--engine=distributed", "--topology=one-peer-hypercube"],
        "--topology='one-peer-hypercube': must exist for every number of nodes, since nodes join "
        "and leave: n=3: ",
    ),
    "device": (
        ["--engine=distributed", "--device=cuda"],
        "--device='cuda': a run whose nodes join and leave is trained on the CPU",
    ),
    "engine": (
        [],
        "--engine='stacked': basegraph launch has started several nodes, each of which would do",
    ),
    "nodes": (
        ["--engine=distributed", "--nodes=7"],
        "--nodes=7: basegraph launch has started 3 nodes",
    ),
    "unstable": (["--engine=distributed", "--algorithm=d2"], "d2 is unstable on base:k=1 with n=3"),
    "timeout": (["--engine=distributed", "--timeout=-3"], "--timeout=-3.0: must be"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(mistake, tmp_path, monkeypatch):
    pytest.importorskip("torchft")
    flags, said = MISTAKES[mistake]
    for name, value in {**ELSEWHERE, "BASEGRAPH_NODES": "3"}.items():
        monkeypatch.setenv(name, value)
    done = run_here("train", *flags, "--out", tmp_path / "run")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"basegraph: error: {said}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_only_the_first_node_reports_a_mistake_that_all_make(tmp_path, monkeypatch):
    for name, value in {**ELSEWHERE, "BASEGRAPH_NODES": "3", "BASEGRAPH_NODE": "node-1"}.items():
        monkeypatch.setenv(name, value)
    done = run_here("train", "--out", tmp_path / "run")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
