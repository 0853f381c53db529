"""`basegraph train --engine distributed`: the run of one process; nodes lost, stopped, changed."""

from __future__ import annotations

import json
import os
import re
import signal
import sys

import pytest
import torch
from safetensors.torch import load_file

from basegraph.cli import reproduce
from basegraph.cli.learning import mnist
from basegraph.cli.sweep import sweep
from basegraph.data.catalog import load
from basegraph.engines.distributed.recovery import generation, node_files
from basegraph.errors import InvalidArgument
from basegraph.models.networks import build
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem
from support import launch
from support.cli import run_here
from support.forks import Ended, nodes_of
from support.jobs import Job


def command(nodes: int, *flags: object, restarts: int = 0) -> list[str]:
    train = ["-m", "basegraph", "train", "--engine", "distributed"]
    return launch.command(nodes, *train, *flags, restarts=restarts)


def run(nodes: int, *flags: object) -> Ended:
    """As torchrun starts it, but as forks."""
    return nodes_of(nodes, "-m", "basegraph", "train", "--engine", "distributed", *flags)


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes": 5, "epochs": 3, "evaluate_samples": 3},
        {
            "nodes": 4,
            "epochs": 2,
            "algorithm": "sgp",
            "topology": "one-peer-exponential",
            "local_steps": 2,
            "weight_decay": 0.01,
            "evaluate_samples": 50,
            "evaluate_nodes": 2,
        },
        {
            "nodes": 3,
            "epochs": 2,
            "algorithm": "adamw",
            "lr": 0.003,
            "weight_decay": 0.1,
            "clip": 0.5,
            "local_steps": 4,
            "outer": "dsgdm:momentum=0.9,nesterov=true",
        },
    ],
)
def test_the_same_run_as_in_one_process(fields, tmp_path):
    config = RunConfig(**fields)
    rows = train(config, tmp_path / "stacked")
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in fields.items()]
    done = run(fields["nodes"], *flags, "--out", tmp_path / "apart")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("test accuracy") == len(rows) + 1  # node 0 speaks for all
    together = sorted(path.name for path in (tmp_path / "stacked").iterdir())
    apart = sorted(path.name for path in (tmp_path / "apart").iterdir())
    assert apart == sorted([*together, "nodes"])
    same = [(tmp_path / f / "config.toml").read_text() for f in ("stacked", "apart")]
    assert same[0] == same[1]
    text = (tmp_path / "apart" / "metrics.jsonl").read_text()
    for mine, theirs in zip(map(json.loads, text.splitlines()), rows, strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine.keys() - {"seconds"}:
            assert mine[name] == pytest.approx(theirs[name], rel=1e-4), name
    ours, truth = (
        load_file(tmp_path / folder / "checkpoint.safetensors") for folder in ("apart", "stacked")
    )
    assert ours.keys() == truth.keys()
    for name, tensor in truth.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("forks", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_killed_node_then_fewer_nodes(forks, tmp_path):
    """kill -9: torchrun starts all again from the survivors; then two nodes instead of three."""
    out = tmp_path / "run"
    flags = ["--epochs", 100_000, "--evaluate-every", 1, "--timeout", 300, "--out", out]
    with Job(tmp_path / "first.log", command(3, *flags, restarts=1), forks=forks) as job:
        job.wait_for("epoch 2:")
        with pytest.raises(InvalidArgument, match=f"is in use by process {job.worker(0)} on"):
            train(RunConfig(), out, resume=True)
        os.kill(job.worker(1), signal.SIGKILL)
        said = job.wait_for(  # in a round, or where all nodes tell each other their losses
            r"node \d: node 1 (\(last seen at .*\) )?did not answer at .*step \d+"
        )
        job.wait_for(r"restarted after step \d+ from the average of 2 of 3 nodes")
        text = job.wait_for(r"now 3 nodes: base:k=1[^\n]*n=3\n(.|\n)*epoch \d+:").string
        assert "saved node" in text, said
        text = job.stop()
        assert re.search(r"stopped by SIGTERM after step \d+", text)
        assert text.count("stopped by SIGTERM") == 1
    assert not list((out / "nodes").glob("*.safetensors"))
    before = load_file(out / "checkpoint.safetensors")["x"]
    assert before.shape[0] == 3
    with Job(tmp_path / "second.log", command(2, "--resume", "--out", out), forks=forks) as job:
        job.wait_for(r"from the average of 3 of 3 nodes.*now 2 nodes: .*n=2")
        job.wait_for(r"epoch \d+:")
        job.stop()
    assert load_file(out / "checkpoint.safetensors")["x"].shape[0] == 2
    restarts = [json.loads(line) for line in (out / "restarts.jsonl").read_text().splitlines()]
    assert [(r["nodes_before"], r["nodes"]) for r in restarts] == [(3, 3), (3, 2)]
    assert restarts[0]["survivors"] == [0, 2]
    epochs = [
        json.loads(line)["epoch"] for line in (out / "metrics.jsonl").read_text().splitlines()
    ]
    assert epochs == sorted(set(epochs))
    assert "nodes = 2" in (out / "config.toml").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_run_saves_and_stops_when_torchrun_is_killed(tmp_path):
    out = tmp_path / "run"
    flags = ["--epochs", 100_000, "--evaluate-every", 1, "--timeout", 300, "--out", out]
    with Job(tmp_path / "log", command(2, *flags)) as job:
        job.wait_for("epoch 2:")
        text = job.kill(job.worker(0), job.worker(1))
    assert text.count("torchrun has ended: stopped by SIGHUP after step") == 1
    assert "Traceback" not in text
    assert load_file(out / "checkpoint.safetensors")["x"].shape[0] == 2


def test_any_number_of_nodes_begins_from_the_survivors_average(tmp_path):
    done = nodes_of(3, "restart_script.py", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("restarted") == 3
    assert "restarted after step 43 from the average of 4 of 5 nodes; base:k=1 for n=3" in (
        done.stderr
    )


MISTAKES = {
    "another number of nodes": (["--nodes", 7], "--nodes=7: torchrun has started 3 processes"),
    "no GPU": (["--device", "cuda"], "device='cuda"),
    "unstable": (["--algorithm", "d2"], "d2 is unstable on base:k=1 with n=3"),
    "timeout": (["--timeout", "-3"], "--timeout"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(mistake, tmp_path):
    flags, said = MISTAKES[mistake]
    if mistake == "no GPU" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = run(3, *flags, "--out", tmp_path / "run")
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if "basegraph: error:" in line]
    assert len(errors) == 1, done.stderr
    assert said in errors[0]
    assert not (tmp_path / "run").exists()


def test_without_torchrun(tmp_path):
    done = run_here("train", "--engine", "distributed", "--out", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "basegraph: error: --engine='distributed': needs a process per node: "
        "torchrun --nproc-per-node N -m basegraph train --engine distributed --out "
    )


@pytest.mark.parametrize("node", [0, 1])
def test_a_node_that_never_comes_is_named(node, tmp_path):
    flags = ["--engine", "distributed", "--timeout", "1", "--out", tmp_path / "run"]
    done = nodes_of(2, "-m", "basegraph", "train", *flags, only=[node])
    assert done.codes == {node: 1}
    message = (
        f"basegraph: error: node {node}: node {1 - node} did not answer at start-up within 1 s"
    )
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_torchrun_needs_the_distributed_engine(tmp_path):
    """Else every process would simulate all nodes, into one folder."""
    said = one_line(nodes_of(2, "-m", "basegraph", "train", "--out", tmp_path / "run"))
    assert "torchrun has started 2 processes, each of which would do all of it" in said
    assert "torchrun --nproc-per-node 2 -m basegraph train --engine distributed --out" in said
    assert not (tmp_path / "run").exists()


def test_torchrun_starts_no_sweeps(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "s.toml").write_text("[grid]\nseed = [0]\n")
    with pytest.raises(InvalidArgument, match="start it without torchrun; --executor ray"):
        sweep(tmp_path / "s.toml", tmp_path / "run")


@pytest.mark.parametrize(("name", "command"), [("learning", mnist), ("pairs", reproduce.pairs)])
def test_torchrun_reproduces_nothing(name, command, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    complaint = f"reproduce='{name}': torchrun has started 2 processes"
    with pytest.raises(InvalidArgument, match=complaint):
        command(out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_process_does_not_resume_what_lost_a_node(tmp_path):
    train(RunConfig(nodes=3, epochs=1), tmp_path / "run")
    (tmp_path / "run" / "nodes").mkdir()
    (tmp_path / "run" / "nodes" / "node-0.safetensors").write_bytes(b"")
    done = run_here("train", "--resume", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "resume with --engine distributed" in done.stderr


def one_line(done: Ended) -> str:
    """What was said of a mistake, once."""
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "basegraph: error:" in line]
    return line


def test_torchrun_does_not_turn_a_refused_run_into_a_resumed_one(tmp_path):
    train(RunConfig(nodes=3, epochs=1), tmp_path / "run")
    before = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    flags = ["--epochs", 1, "--out", tmp_path / "run"]
    with Job(tmp_path / "log", command(2, *flags, restarts=1)) as job:
        assert job.process.wait() != 0
    assert job.log.read_text(encoding="utf-8").count("holds a run already") == 2
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == before


TRAIN = ["--", "train", "--engine", "distributed", "--timeout", 300, "--out", "run"]


def test_a_node_with_other_settings_is_named(tmp_path):
    done = nodes_of(2, "own_machine.py", tmp_path, "--evaluate-every=1,2", *TRAIN)
    assert "node 1 differs from node 0 in 'evaluate_every'" in one_line(done)
    assert not (tmp_path / "machine-0" / "run").exists()


def test_what_only_one_node_cannot_read_is_said_by_node_0(tmp_path):
    train(RunConfig(nodes=2, epochs=1), tmp_path / "machine-0" / "run")
    other = tmp_path / "machine-1" / "run" / "nodes"
    other.mkdir(parents=True)
    (other / "node-1.safetensors").write_bytes(b"half a file")
    done = nodes_of(2, "own_machine.py", tmp_path, *TRAIN, "--epochs", 1, "--resume")
    assert "node 1: run/nodes/node-1.safetensors: is cut short" in one_line(done)


def test_survivors_that_the_run_has_left_behind_do_not_take_it_back(tmp_path):
    """A machine comes back with nodes' files from before the checkpoint, or of an earlier start."""
    train(RunConfig(nodes=2, epochs=2), tmp_path / "machine-0" / "run")
    problem = Problem(RunConfig(nodes=2), load("digits"), build("mlp", (1, 8, 8), 10, 0))
    facts = {
        "n": 2,
        "step": 9,
        "steps_per_epoch": 21,
        "loss_sum": 9.0,
        "loss_count": 9,
        "seconds": 1.0,
        "config": problem.config.computes(),
        "fingerprint": problem.fingerprint,
    }
    other = tmp_path / "machine-1" / "run" / "nodes"
    node_files.save(other, 1, {"x": torch.zeros(8970)}, facts | {"generation": 4})
    node_files.save(other, 0, {"x": torch.zeros(8970)}, facts | {"generation": 3, "step": 42})
    generation.begin(tmp_path / "machine-0" / "run" / "nodes", 4)
    done = nodes_of(2, "own_machine.py", tmp_path, *TRAIN, "--epochs", 2, "--resume")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "restarted" not in done.stdout
    reason = "node 1: run/nodes/node-1.safetensors: epoch 0.43 is behind the checkpoint's"
    assert done.stderr.count(f"left out: {reason}") == 1
    reason = "node-0.safetensors: belongs to start 3 of the job; the run is at start 4"
    reason = f"node 1: run/nodes/{reason}"
    assert done.stderr.count(f"left out: {reason}") == 1
    assert "done: test accuracy" in done.stdout
    assert not list(other.glob("*.safetensors"))
    assert [generation.last(tmp_path / f"machine-{i}" / "run" / "nodes") for i in (0, 1)] == [5, 5]


def test_nodes_that_have_seen_other_numbers_of_starts_meet(tmp_path):
    """A machine that joins later: without torchrun's own store nothing is left from before."""
    (tmp_path / "script.py").write_text(
        "import os\nfrom basegraph.engines.distributed.membership.group import join\n"
        'os.environ["TORCHELASTIC_RESTART_COUNT"] = os.environ["RANK"]\n'
        'join("gloo", 300)\n'
    )
    assert nodes_of(2, tmp_path / "script.py").codes == {0: 0, 1: 0}


def test_a_run_that_has_ended_is_left_alone(tmp_path):
    out = tmp_path / "run"
    train(RunConfig(nodes=3, epochs=1), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    done = run(2, "--resume", "--out", out)
    assert done.returncode != 0
    assert "holds a run that has ended, with 3 nodes" in one_line(done)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
