"""Checkpoints of a single node: what is refused, and which of several is taken."""

from __future__ import annotations

import json
import pickle

import pytest
import torch
import torch.distributed as dist
from torch import nn

import basegraph as bg
from basegraph.engines.checkpoint import CheckpointError
from basegraph.optim.checkpoints import NotSaved
from basegraph.optim.checkpoints.storage import NodesReader


@pytest.fixture(autouse=True)
def _single_node():
    with pytest.warns(UserWarning, match="single node and exchanges nothing"):
        bg.DecentralizedOptimizer([nn.Parameter(torch.zeros(1))], lr=0.1)
    yield
    dist.destroy_process_group()


def pair(width: int = 4, kind: str = "adamw"):
    net = nn.Linear(width, 1)
    if kind == "lbfgs":
        return net, bg.Gossip(torch.optim.LBFGS(net.parameters(), max_iter=3))
    if kind == "adamw":
        return net, bg.Gossip(torch.optim.AdamW(net.parameters(), lr=0.1))
    return net, bg.DecentralizedOptimizer(net.parameters(), kind, lr=0.1)


def width_of(net) -> int:
    return next(net.parameters()).shape[1]


def step(net, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(1, width_of(net))).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def test_the_newest_complete_one_is_taken_and_older_ones_go(tmp_path):
    net, optimizer = pair()
    for epoch in range(4):
        step(net, optimizer)
        bg.save_checkpoint(tmp_path, net, optimizer, extra={"epoch": epoch}, keep=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "000002-step-2", "000003-step-3", "000004-step-4",
    ]  # fmt: skip
    (tmp_path / "000004-step-4" / "checkpoint.json").unlink()  # whoever made this was killed
    again, resumed = pair()
    restored = bg.load_checkpoint(tmp_path, again, resumed)
    assert restored is not None
    assert (restored.step, restored.extra) == (3, {"epoch": 2})
    assert resumed.gossip_step == 3


def test_learning_rates_and_betas_come_back(tmp_path):
    net, optimizer = pair()
    optimizer.param_groups[0].update(lr=torch.tensor(0.25), betas=(0.5, 0.75))
    bg.save_checkpoint(tmp_path, net, optimizer)
    again, resumed = pair()
    bg.load_checkpoint(tmp_path, again, resumed)
    assert resumed.param_groups[0]["lr"] == 0.25
    assert resumed.param_groups[0]["betas"] == (0.5, 0.75)


def test_a_failure_in_the_background_is_told(tmp_path, monkeypatch, caplog):
    net, optimizer = pair()
    bg.save_checkpoint(tmp_path, net, optimizer)

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("basegraph.optim.checkpoints.folder.finish", fail)
    writing = bg.save_checkpoint(tmp_path, net, optimizer, background=True)
    with pytest.raises(NotSaved, match=r"000002-step-0: not saved: .*the disk is full"):
        writing.result()
    assert "the disk is full" in caplog.text
    with pytest.raises(NotSaved, match="the disk is full"):
        bg.save_checkpoint(tmp_path, net, optimizer)
    assert bg.load_checkpoint(tmp_path, net, optimizer).path.name == "000001-step-0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extra": {"f": print}}, "extra=.*must be what JSON can write"),
        ({"extra": {"text": "x" * 2**20}}, "extra='1048.* bytes': must be at most"),
        ({"keep": 0}, "keep=0: must be an integer ≥ 1"),
    ],
)
def test_what_cannot_be_saved_is_refused(tmp_path, options, message):
    net, optimizer = pair()
    with pytest.raises(bg.BasegraphError, match=message):
        bg.save_checkpoint(tmp_path, net, optimizer, **options)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_optimizer_or_not_its_own_model_is_refused(tmp_path):
    net, optimizer = pair()
    for call in (bg.save_checkpoint, bg.load_checkpoint, bg.save_averaged):
        with pytest.raises(bg.InvalidArgument, match=r"optimizer='AdamW': must be a bg.Gossip"):
            call(tmp_path / "x", net, optimizer.optimizer)
    with optimizer.averaged(), pytest.raises(bg.BasegraphError, match="inside averaged"):
        bg.save_checkpoint(tmp_path, net, optimizer)
    with pytest.raises(bg.BasegraphError, match=r"path='.*txt': must end in .safetensors"):
        bg.save_averaged(tmp_path / "model.txt", net, optimizer)
    net, optimizer = pair(kind="lbfgs")
    step(net, optimizer)
    with pytest.raises(bg.BasegraphError, match="keeps lists of tensors: cannot be saved"):
        bg.save_checkpoint(tmp_path, net, optimizer)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(bg.BasegraphError, match=r"folder='.*': cannot be made"):
        bg.save_checkpoint(file, net, optimizer)


@pytest.mark.parametrize("kind", ["dsgdm", "outer", "adamw"])
def test_a_frozen_parameter_does_not_keep_a_checkpoint_from_being_loaded(kind, tmp_path):
    """torch leaves it out of the state."""

    def frozen():
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        net[0].requires_grad_(False)
        if kind == "dsgdm":
            return net, bg.DecentralizedOptimizer(net.parameters(), lr=0.1)
        outer = "dsgdm:momentum=0.5" if kind == "outer" else None
        return net, bg.Gossip(torch.optim.AdamW(net.parameters(), lr=0.1), outer=outer)

    net, optimizer = frozen()
    for _ in range(2):
        step(net, optimizer)
    bg.save_checkpoint(tmp_path, net, optimizer)
    again, resumed = frozen()
    bg.load_checkpoint(tmp_path, again, resumed)
    assert resumed.gossip_step == 2
    step(net, optimizer)
    step(again, resumed)
    for p, q in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(p, q)


def test_another_model_or_optimizer_is_refused(tmp_path):
    bg.save_checkpoint(tmp_path, *pair())
    with pytest.raises(bg.BasegraphError, match=r"is of Gossip\(AdamW\), not of .*\(dsgdm\)"):
        bg.load_checkpoint(tmp_path, *pair(kind="dsgdm"))
    with pytest.raises(
        bg.BasegraphError, match=r"'nodes.0.model.weight' is \(1, 4\): must be \(1, 5\)"
    ):
        bg.load_checkpoint(tmp_path, *pair(5))
    net = nn.Sequential(nn.Linear(4, 1))
    optimizer = bg.Gossip(torch.optim.AdamW(net.parameters()))
    with pytest.raises(bg.BasegraphError, match=r"has no tensor 'nodes.0.model.0.weight'"):
        bg.load_checkpoint(tmp_path, net, optimizer)


def test_damaged_files_are_refused(tmp_path):
    path = bg.save_checkpoint(tmp_path, *pair()).result()
    (tensors,) = path.glob("*.safetensors")
    facts = path / "checkpoint.json"
    whole, text = tensors.read_bytes(), facts.read_text(encoding="utf-8")
    tensors.write_bytes(whole[:-1])
    with pytest.raises(bg.BasegraphError, match="is missing or cut short; it had"):
        bg.load_checkpoint(tmp_path, *pair())
    tensors.write_bytes(pickle.dumps("x").ljust(len(whole), b"."))
    with pytest.raises(bg.BasegraphError, match="is cut short or no checkpoint"):
        bg.load_checkpoint(tmp_path, *pair())
    tensors.write_bytes(whole)
    for broken in ("[]", "{", text.replace('"step": 0', '"step": -1'), json.dumps({"format": 1})):
        facts.write_text(broken, encoding="utf-8")
        with pytest.raises((CheckpointError, bg.BasegraphError), match=r"checkpoint.json"):
            bg.load_checkpoint(tmp_path, *pair())
    facts.write_text(text, encoding="utf-8")
    assert bg.load_checkpoint(tmp_path, *pair()) is not None


def test_one_of_several_is_taken_by_its_path(tmp_path):
    net, optimizer = pair()
    first = bg.save_checkpoint(tmp_path, net, optimizer).result()
    step(net, optimizer)
    bg.save_checkpoint(tmp_path, net, optimizer)
    restored = bg.load_checkpoint(first, *pair())
    assert restored is not None
    assert (restored.step, restored.path) == (0, first)
    file = tmp_path / "notes.txt"
    file.touch()
    with pytest.raises(bg.InvalidArgument, match=r"folder='.*notes.txt': is a file"):
        bg.load_checkpoint(file, *pair())


def test_another_number_of_groups_is_refused_before_anything_is_read(tmp_path):
    net, optimizer = pair()
    bg.save_checkpoint(tmp_path, net, optimizer)
    other = nn.Linear(4, 1)
    groups = [{"params": [other.weight]}, {"params": [other.bias], "lr": 0.2}]
    two = bg.Gossip(torch.optim.AdamW(groups, lr=0.1))
    before = other.weight.detach().clone()
    with pytest.raises(bg.BasegraphError, match="has 1 parameter groups, the optimizer has 2"):
        bg.load_checkpoint(tmp_path, other, two)
    assert torch.equal(other.weight, before)


def test_a_module_that_is_not_trained_is_refused(tmp_path):
    net, optimizer = pair()
    other, _ = pair()
    complaint = "model='Linear': must be the module whose parameters the optimizer has"
    with pytest.raises(bg.BasegraphError, match=complaint):
        bg.save_checkpoint(tmp_path, other, optimizer)
    with pytest.raises(bg.InvalidArgument, match=complaint):
        bg.save_averaged(tmp_path / "model.safetensors", other, optimizer)
    bg.save_averaged(tmp_path / "model.safetensors", nn.Sequential(net), optimizer)


def test_a_tensor_with_a_missing_part_is_refused(tmp_path, monkeypatch):
    net, optimizer = pair()
    bg.save_checkpoint(tmp_path, net, optimizer)
    whole = NodesReader.read_metadata

    def without_parts(reader):
        found = whole(reader)
        found.state_dict_metadata["nodes.0.model.weight"].chunks.clear()
        return found

    monkeypatch.setattr(NodesReader, "read_metadata", without_parts)
    with pytest.raises(bg.BasegraphError, match=r"a part of the tensor 'nodes.0.model.weight'"):
        bg.load_checkpoint(tmp_path, *pair())
