"""A fault in an evaluation: the row is made when the run is resumed, and no step is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from basegraph.engines.distributed.engine import DistributedEngine
from basegraph.engines.distributed.recovery import node_files
from basegraph.errors import PeerLost
from basegraph.storage.files import CannotWrite
from basegraph.training.config import RunConfig
from basegraph.training.elastic import train_distributed
from basegraph.training.loop import Loop
from support.launch import free_port

CONFIG = RunConfig(nodes=1, epochs=3, evaluate_every=1, batch=256)


@pytest.fixture(autouse=True)
def _one_process(monkeypatch):
    """What torchrun tells the only one of its processes."""
    environment = {
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "RANK": "0",
        "WORLD_SIZE": "1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def train(monkeypatch, out, config=CONFIG, **options):
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    rows = train_distributed(config, out, **options)
    return [{**row, "seconds": 0} for row in rows]


def lost_at(monkeypatch, epoch):
    """Lose a neighbor in the evaluation after this epoch."""
    really = DistributedEngine.evaluate

    def evaluate(engine, *arguments):
        if engine.step == epoch * engine.steps_per_epoch:
            raise PeerLost("node 1 did not answer", 1)
        return really(engine, *arguments)

    monkeypatch.setattr(DistributedEngine, "evaluate", evaluate)


@pytest.mark.parametrize("epoch", [2, 3])
def test_the_row_is_made_on_resume(epoch, tmp_path, monkeypatch):
    whole = train(monkeypatch, tmp_path / "whole")
    with monkeypatch.context() as patched:
        lost_at(patched, epoch)
        with pytest.raises(PeerLost, match=r"did not answer; saved node 0 after"):
            train(patched, tmp_path / "run")
    rows = train(monkeypatch, tmp_path / "run", resume=True)
    assert rows[:epoch] == whole[:epoch]  # afterwards the method's state is a fresh one
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    again = train(monkeypatch, tmp_path / "run", resume=True)
    assert again == rows


def test_the_fault_is_told_also_on_a_full_disk(tmp_path, monkeypatch):
    def full(folder, *arguments):
        raise CannotWrite(f"{folder}: cannot be written: No space left on device")

    monkeypatch.setattr(node_files, "save", full)
    lost_at(monkeypatch, 1)
    message = r"did not answer; not saved: .*No space left on device"
    with pytest.raises(PeerLost, match=message) as lost:
        train(monkeypatch, tmp_path / "run")
    assert lost.value.node == 1


def test_a_restart_goes_on_after_the_very_step(tmp_path, monkeypatch):
    """An epoch has 81 steps here; a number of epochs in floating point would lose some steps."""
    step = next(s for s in range(1, 400) if int(s / 81 * 81) != s)
    config, out = replace(CONFIG, batch=16, epochs=5, evaluate_every=5), tmp_path / "run"
    really = DistributedEngine.advance

    def advance(engine):
        if engine.step == step:
            raise PeerLost("node 1 did not answer", 1)
        really(engine)

    with monkeypatch.context() as patched:
        patched.setattr(DistributedEngine, "advance", advance)
        with pytest.raises(PeerLost, match=f"saved node 0 after {step} steps"):
            train(patched, out, config)
    monkeypatch.setattr(Loop, "run", lambda loop, signals: [loop.engine.step])
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    assert train_distributed(config, out, resume=True) == step
