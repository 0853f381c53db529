"""What nodes restart from: nothing stale, nothing that is not finite, nothing lost."""

from __future__ import annotations

import gc
import json
import math
import os
import re
import stat
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import basegraph as bg
from basegraph.engines import checkpoint
from basegraph.engines.distributed.membership.fixed import FixedMembership
from basegraph.engines.distributed.recovery import node_files, survivors
from basegraph.storage import files
from basegraph.storage.files import CannotWrite
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.run import Diverged
from basegraph.training.watcher import Watcher


@pytest.fixture(scope="module", autouse=True)
def group():
    """This process as the only node."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def saved(folder: Path, node: int, value: float, step: int, **facts: int) -> None:
    model = torch.full((3,), value)
    node_files.save(folder, node, {"x": model}, {"n": 3, "step": step, **facts})


def job(folder: Path, every: int = 0, kind: str = "decentralized"):
    """A start of a job whose gradient is -1 everywhere, so that x grows by 0.5 per step."""
    x = torch.nn.Parameter(torch.zeros(3))
    x.grad = -torch.ones(3)
    options = {"checkpoint": folder, "checkpoint_every": every}
    if kind == "gossip":
        return x, bg.Gossip(torch.optim.SGD([x], lr=0.5), **options)
    return x, bg.DecentralizedOptimizer([x], "dsgd", lr=0.5, **options)


def lose_a_neighbor(optimizer) -> str:
    """What a node says that loses a neighbor in its next step."""
    gc.collect()  # other tests' optimizers on this group, which would be saved, too
    with pytest.raises(bg.PeerLost) as error, optimizer._node.rescued(optimizer.gossip_step):
        raise bg.PeerLost("node 0: node 1 did not answer", 1)
    return str(error.value)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(node_files.PATTERN))


def test_a_folder_stays_where_it_was_if_the_script_goes_elsewhere(tmp_path, monkeypatch):
    """As hydra has scripts do."""
    monkeypatch.chdir(tmp_path)
    _, optimizer = job(Path("job"))
    optimizer.step()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert f"saved node 0 after 1 steps in {tmp_path / 'job'}" in lose_a_neighbor(optimizer)


def test_a_schedule_can_go_on_after_a_restart(tmp_path):
    for kind in ("decentralized", "gossip"):
        saved(tmp_path / kind, 0, 1.0, 10)
        _, optimizer = job(tmp_path / kind, kind=kind)
        assert optimizer.gossip_step == 10
        rates = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 1 / step, last_epoch=optimizer.gossip_step - 1
        )
        assert rates.get_last_lr() == [0.5 / 10]


def test_the_other_optimizer_of_the_process_is_saved_too(tmp_path):
    _, first = job(tmp_path / "first")
    _, second = job(tmp_path / "second")
    first.step()
    first.step()
    second.step()
    said = lose_a_neighbor(second)
    assert f"saved node 0 after 1 steps in {tmp_path / 'second'}" in said
    assert f"saved node 0 after 2 steps in {tmp_path / 'first'}" in said


def test_only_an_error_inside_a_step_keeps_a_node_from_being_saved(tmp_path, monkeypatch):
    _, optimizer = job(tmp_path)
    optimizer.step()
    with pytest.raises(ValueError, match="inside"), optimizer._node.one_step(1):
        raise ValueError("inside")
    assert optimizer.rescue_here() == "not saved: an error interrupted step 1"
    optimizer.step()  # the script has caught it
    assert optimizer.rescue_here().startswith("saved node 0 after 2 steps")
    monkeypatch.setattr(FixedMembership, "epoch", 1)  # where nodes join and leave
    with pytest.raises(bg.PeerLost), optimizer._node.one_step(2):
        raise bg.PeerLost("node 0: node 1 did not answer", 1)
    assert optimizer.rescue_here().startswith("saved node 0 after 2 steps")


# -- not finite -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_file_that_is_not_finite_is_left_out_by_name(bad, tmp_path, caplog):
    for node, value in enumerate((1.0, bad, 3.0)):
        saved(tmp_path, node, value, 10)
    x, optimizer = job(tmp_path)
    assert x.tolist() == [2.0] * 3
    assert optimizer.gossip_step == 10
    path = tmp_path / "node-1.safetensors"
    assert f"left out: {path}: the tensor 'x' holds values that are not finite" in caplog.messages
    assert "from the average of 2 of 3 nodes" in caplog.text


def test_only_files_that_are_not_finite_are_refused(tmp_path):
    for node in range(2):
        saved(tmp_path, node, math.nan, 10)
    with pytest.raises(bg.BasegraphError, match=r"node-0.* not finite; delete it to start without"):
        job(tmp_path)


@pytest.mark.parametrize("kind", ["decentralized", "gossip"])
def test_a_model_that_is_not_finite_is_not_saved(kind, tmp_path, caplog):
    x, optimizer = job(tmp_path, 1, kind)
    optimizer.step()
    with torch.no_grad():
        x[1] = math.nan
    said = lose_a_neighbor(optimizer)
    assert said.endswith("; not saved: the model of node 0 has values that are not finite")
    optimizer._node.save_if_due(2)
    assert "no checkpoint after 2 steps: the model of node 0 has values" in caplog.text
    assert checkpoint.header(tmp_path / "node-0.safetensors")[0]["step"] == 1


def test_a_checkpoint_of_a_run_that_is_not_finite_is_not_called_good(tmp_path):
    path = tmp_path / "checkpoint.safetensors"

    def poison(step: int, total: int, loss: float) -> None:
        checkpoint.save(path, {"x": torch.full((2, 3), math.nan)}, {})

    with pytest.raises(Diverged) as error:
        train(RunConfig(nodes=2, epochs=1, lr=1e30), tmp_path, watcher=Watcher(stepped=poison))
    assert f"last good checkpoint: none: {path}" in str(error.value)


# -- nothing lost --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["decentralized", "gossip"])
def test_files_serve_until_there_are_newer_ones(kind, tmp_path, caplog):
    """Restart at step 1000, kill everybody, restart: at step 1000 again; then after a fault."""
    for node in range(3):
        saved(tmp_path, node, float(node), 1000)
    for _ in range(3):  # each of which ends without a word
        caplog.clear()
        x, optimizer = job(tmp_path, kind=kind)
        assert (x.tolist(), optimizer.gossip_step) == ([1.0] * 3, 1000)
        assert "restarted after step 1000 from the average of 3 of 3 nodes" in caplog.text
    optimizer.step()
    assert "saved node 0 after 1001 steps" in lose_a_neighbor(optimizer)
    caplog.clear()
    x, optimizer = job(tmp_path, kind=kind)
    assert (x.tolist(), optimizer.gossip_step) == ([1.5] * 3, 1001)
    path = tmp_path / "node-1.safetensors"
    assert (
        f"left out: {path}: belongs to start 0 of the job, the others to start 3" in caplog.messages
    )
    assert names(tmp_path) == ["node-0.safetensors"]


@pytest.mark.parametrize("kind", ["decentralized", "gossip"])
def test_checkpoints_at_every_so_many_steps(kind, tmp_path):
    _, optimizer = job(tmp_path, 2, kind)
    for _ in range(7):
        optimizer.step()
    assert names(tmp_path) == ["node-0.previous.safetensors", "node-0.safetensors"]
    steps = [checkpoint.header(tmp_path / name)[0]["step"] for name in names(tmp_path)]
    assert steps == [4, 6]
    x, optimizer = job(tmp_path, 2, kind)
    assert (x.tolist(), optimizer.gossip_step) == ([3.0] * 3, 6)
    assert names(tmp_path) == ["node-0.safetensors"]


def test_mistakes_in_checkpoint_every(tmp_path):
    x = [torch.nn.Parameter(torch.zeros(3))]
    with pytest.raises(bg.InvalidArgument, match="checkpoint_every=5: needs checkpoint="):
        bg.DecentralizedOptimizer(x, lr=0.1, checkpoint_every=5)
    with pytest.raises(bg.InvalidArgument, match="checkpoint_every=-1: must be"):
        bg.DecentralizedOptimizer(x, lr=0.1, checkpoint=tmp_path, checkpoint_every=-1)


PERIODIC = {"periodic": 1, "generation": 1}
CASES = {
    "a step that only some have saved": (
        [(0, 100, PERIODIC), (1, 100, PERIODIC), (2, 100, PERIODIC), (0, 200, PERIODIC)],
        (100, [0, 1, 2]),
    ),
    "of several that all have saved the last": (
        [(node, step, PERIODIC) for step in (100, 200) for node in range(3)],
        (200, [0, 1, 2]),
    ),
    "survivors go on from the fault": (
        [(node, 100, PERIODIC) for node in range(3)]
        + [(node, 150 + node, {"generation": 1}) for node in range(2)],
        (151, [0, 1]),
    ),
    "a start of which not all have saved": (
        [(node, 100, PERIODIC) for node in range(3)] + [(1, 110, PERIODIC | {"generation": 2})],
        (100, [0, 1, 2]),
    ),
    "a machine's files are gone": (
        [(0, 100, PERIODIC), (1, 100, PERIODIC), (0, 200, PERIODIC)],
        (100, [0, 1]),
    ),
    "files from before starts were counted": (
        [(node, 40 + node, {}) for node in range(3)],
        (42, [0, 1, 2]),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_which_files_belong_together(case, tmp_path):
    records, (step, nodes) = CASES[case]
    for node, after, facts in records:
        saved(tmp_path, node, float(after), after, **facts)
    again = survivors.restart(tmp_path, torch.zeros(3), FixedMembership())
    assert again is not None
    assert (again.step, again.survivors) == (step, nodes)


def test_a_kill_between_two_names(tmp_path):
    """The new file is whole, and the old one is `previous` already."""
    for step in (1, 2):
        saved(tmp_path, 0, float(step), step, n=1, **PERIODIC)
    (tmp_path / "node-0.safetensors").rename(tmp_path / "node-0.next.safetensors")
    assert job(tmp_path)[0].tolist() == [2.0] * 3


def test_a_name_is_on_disk_before_anything_else_happens(tmp_path, monkeypatch):
    synced: list[tuple[bool, bool]] = []

    def fsync(handle: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        synced.append((is_folder, (tmp_path / "a").exists()))

    monkeypatch.setattr(files.os, "fsync", fsync)
    with files.replacing(tmp_path / "a") as temporary:
        temporary.write_text("x")
    assert synced == [(False, False), (True, True)]


def test_a_full_disk_does_not_end_the_job(tmp_path, monkeypatch, caplog):
    _, optimizer = job(tmp_path, 1)
    optimizer.step()

    def full(path: Path, *_: object) -> None:
        raise CannotWrite(f"{path}: cannot be written: No space left on device")

    monkeypatch.setattr(checkpoint, "save", full)
    optimizer.step()
    assert re.search("no checkpoint after 2 steps: .*No space left on device", caplog.text)
    said = lose_a_neighbor(optimizer)
    assert said.startswith("node 0: node 1 did not answer; not saved: ")
    monkeypatch.undo()
    assert job(tmp_path)[1].gossip_step == 1


# -- nothing stale -------------------------------------------------------------------------------


def test_a_node_of_an_earlier_start_saves_nothing(tmp_path, caplog):
    _, hung = job(tmp_path, 1)
    _, optimizer = job(tmp_path)
    optimizer.step()
    assert "saved node 0 after 1 steps" in lose_a_neighbor(optimizer)
    over = f"node 0 belongs to start 1 of the job; {tmp_path} is at start 2"
    assert lose_a_neighbor(hung).endswith(f"; not saved: {over}")
    hung.step()
    assert f"no checkpoint after 1 steps: {over}" in caplog.text
    assert job(tmp_path)[0].tolist() == [0.5] * 3


def test_a_stale_file_is_left_out_by_name(tmp_path, caplog):
    for node, generation in enumerate((4, 4, 3)):
        saved(tmp_path, node, 90.0 if generation == 4 else 3.0, 50, generation=generation)
    x, optimizer = job(tmp_path)
    assert x.tolist() == [90.0] * 3
    path = tmp_path / "node-2.safetensors"
    assert (
        f"left out: {path}: belongs to start 3 of the job, the others to start 4" in caplog.messages
    )
    assert "from the average of 2 of 3 nodes" in caplog.text
    assert json.loads((tmp_path / "generation.json").read_text()) == {"generation": 5}
    assert "saved" in lose_a_neighbor(optimizer)
    assert checkpoint.header(tmp_path / "node-0.safetensors")[0]["generation"] == 5


BROKEN = ["", "[]", '{"generation": "4"}', '{"generation": -1}', "[" * 10**5]


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_count_of_starts_is_refused(text, tmp_path):
    (tmp_path / "generation.json").write_text(text)
    with pytest.raises(bg.BasegraphError, match=re.escape(str(tmp_path / "generation.json"))):
        job(tmp_path)
