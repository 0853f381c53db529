"""Checkpoints that hold what they should not: refused in one line that names file and field."""

from __future__ import annotations

import copy
import math
import os
import re
import shutil

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import save_file

import basegraph as bg
from basegraph.engines import checkpoint
from basegraph.engines.checkpoint import CheckpointError
from basegraph.engines.distributed.membership.fixed import FixedMembership
from basegraph.engines.distributed.recovery import node_files, survivors
from basegraph.experiments.grid import expand
from basegraph.experiments.sweep import SweepFolder, run_sweep
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.elastic_run import SURVIVOR
from basegraph.training.folder import FACTS

SMALL = {"nodes": 2, "epochs": 1, "batch": 400}


def nested(depth: int) -> list:
    inner: list = []
    for _ in range(depth):
        inner = [inner]
    return inner


BAD = {
    "integer": [None, "3", 1.0, True, -1, 2**63, 10**400, math.nan, [], {}, nested(300)],
    "number": [None, "3", True, math.nan, math.inf, -math.inf, 10**400, [], {}],
    "text": [None, 3, 0.5, [], {}, nested(300)],
    "table": [None, 3, "x", [], {"nodes": None}, {"lr": [1]}, {"lr": {}}, nested(300)],
}


def kinds(schema: checkpoint.Schema) -> list[tuple[str, object]]:
    """Every field of a schema with everything that it must not be."""
    cases: list[tuple[str, object]] = []
    for name, field in schema.items():
        (kind,) = [kind for kind in BAD if kind in field.accepted.split(" of ")[0]]
        cases += [(name, bad) for bad in BAD[kind] if bad is not None or field.required]
    return cases


def changed(facts: dict, name: str, value: object) -> dict:
    copied = copy.copy(facts)
    *tables, last = name.split(".")
    inner = copied
    for table in tables:
        inner[table] = inner = copy.copy(inner[table])
    inner[last] = value
    return copied


def without(facts: dict, name: str) -> dict:
    copied = copy.deepcopy(facts)
    *tables, last = name.split(".")
    inner = copied
    for table in tables:
        inner = inner[table]
    del inner[last]
    return copied


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a run that has ended."""
    folder = tmp_path_factory.mktemp("made") / "run"
    train(RunConfig(**SMALL), folder)
    return folder


@pytest.fixture
def run(made, tmp_path):
    """A copy of it, and what its checkpoint holds."""
    shutil.copytree(made, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.safetensors"
    return path, *checkpoint.load(path)


def test_every_field_of_a_run(run):
    path, _, facts = run
    assert set(FACTS) == {*facts, "config.nodes", "config.epochs"} - {"format"}
    for name, field in FACTS.items():
        checkpoint.save(path, {}, without(facts, name))
        if not field.required:
            checkpoint.load(path, FACTS)
            continue
        with pytest.raises(CheckpointError, match=f"{re.escape(str(path))}: has no field '{name}'"):
            checkpoint.load(path, FACTS)
    for name, bad in kinds(FACTS):
        checkpoint.save(path, {}, changed(facts, name, bad))
        table = name.partition(".")[0]  # of which a field may be no number and no text
        said = rf"{re.escape(str(path))}: (has no field '{name}|({name}|{table})=.*: must be )"
        with pytest.raises(CheckpointError, match=said) as refusal:
            checkpoint.load(path, FACTS)
        assert len(str(refusal.value)) < len(str(path)) + 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested too deep"),
        ('{"format": 1, "step": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
        ("[]", r"is no checkpoint: its facts are \[\]"),
        ("3", "is no checkpoint: its facts are 3"),
        ("{}", "has format None, not 1"),
        ('{"format": [1]}', r"has format \[1\], not 1"),
        ("{", "is cut short or no checkpoint"),
        ('{"format": 1, "step": ' + "9" * 5000 + "}", "is cut short or no checkpoint"),
    ],
)
def test_headers_that_are_none(text, said, run):
    path, tensors, _ = run
    save_file(tensors, path, {"basegraph": text})
    with pytest.raises(CheckpointError, match=said):
        train(RunConfig(**SMALL), path.parent, resume=True)


def test_every_tensor_of_a_run(run):
    path, tensors, facts = run
    assert set(tensors) == {"x", "state.momentum"}
    nan = torch.full_like(tensors["x"], math.nan)
    for name, tensor in tensors.items():
        rest = {other: t for other, t in tensors.items() if other != name}
        for said, bad in {
            f"has no tensor '{name}'": rest,
            f"the tensor '{name}' is torch.float64": {**rest, name: tensor.double()},
            f"the tensor '{name}' is torch.int32": {**rest, name: tensor.int()},
            f"must be torch.float32 {tuple(tensor.shape)}": {**rest, name: tensor[:, 1:].clone()},
            f"the tensor '{name}' is torch.float32 (1, ": {**rest, name: tensor[:1].clone()},
            f"the tensor '{name}' is torch.float32 ()": {**rest, name: torch.tensor(0.0)},
            f"the tensor '{name}' holds values that are not finite": {**rest, name: nan},
        }.items():
            checkpoint.save(path, bad, facts)
            with pytest.raises(CheckpointError, match=re.escape(f"{path}: ")) as refusal:
                train(RunConfig(**SMALL), path.parent, resume=True)
            assert said in str(refusal.value)


def test_a_step_after_the_last(run):
    path, tensors, facts = run
    checkpoint.save(path, tensors, {**facts, "step": 2**62})
    with pytest.raises(CheckpointError, match=r"step=4611686018427387904: must be at most \d+$"):
        train(RunConfig(**SMALL), path.parent, resume=True)


def test_a_field_of_the_configuration(run):
    path, tensors, facts = run
    checkpoint.save(path, tensors, changed(facts, "config.lr", "9" * 500))
    with pytest.raises(
        bg.InvalidArgument,
        match=r"lr=0\.1: differs from the run that is resumed, which has '9+\.\.\.$",
    ):
        train(RunConfig(**SMALL), path.parent, resume=True)


def test_a_sweep_names_the_file(tmp_path):
    runs = expand(SMALL, [{"seed": [0]}], "test")
    run_sweep(runs, SweepFolder(tmp_path, "x", resume=False))
    path = tmp_path / "seed=0" / "checkpoint.safetensors"
    tensors, facts = checkpoint.load(path)
    checkpoint.save(path, tensors, {**facts, "step": "all"})
    with pytest.raises(CheckpointError, match=r"checkpoint.safetensors: step='all': must be"):
        run_sweep(runs, SweepFolder(tmp_path, "x", resume=True))


@pytest.fixture(scope="module")
def group():
    """This process as the only node."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


GOOD = {"n": 4, "step": 7, "steps_per_epoch": 14, "loss_sum": 2.0, "loss_count": 7,
        "seconds": 1.0, "bytes": 2.0, "config": {"lr": 0.1},
        "fingerprint": "abc"}  # fmt: skip


def begin(folder, **options):
    return survivors.restart(folder, torch.zeros(3), FixedMembership(), schema=SURVIVOR, **options)


def test_every_field_of_a_survivor(group, tmp_path, caplog):
    """With another survivor there is a warning and its model alone; without, a refusal."""
    every = {**survivors.SURVIVOR_FACTS, **SURVIVOR}
    facts = {"node": 0, **GOOD}
    bad = [changed(facts, name, value) for name, value in kinds(every)]
    bad += [without(facts, name) for name, field in every.items() if field.required]
    folder, x = tmp_path / "nodes", {"x": torch.ones(3)}
    node_files.save(folder, 1, x, GOOD)
    path = folder / "node-0.safetensors"
    for wrong in bad:
        checkpoint.save(path, x, wrong)
        caplog.clear()
        again = begin(folder)
        assert again is not None
        assert again.survivors == [1]
        (said,) = caplog.messages
        assert said.startswith(f"left out: {path}: ")
    (folder / "node-1.safetensors").unlink()
    with pytest.raises(bg.BasegraphError, match=re.escape(f"{path}: has no field")) as refusal:
        begin(folder)
    assert str(refusal.value).endswith("; delete it to start without it")


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({}, "the tensor 'x' is nothing ()"),
        ({"x": torch.ones(4)}, "the tensor 'x' is F32 (4,): must be 3 numbers"),
        ({"x": torch.ones(3, dtype=torch.int64)}, "the tensor 'x' is I64 (3,): must be 3 numbers"),
        ({"x": torch.tensor([0, math.nan, 0])}, "the tensor 'x' holds values that are not finite"),
    ],
)
def test_tensors_of_a_survivor(tensors, said, group, tmp_path):
    node_files.save(tmp_path, 0, tensors, GOOD)
    with pytest.raises(bg.BasegraphError, match=re.escape(said)):
        begin(tmp_path)


def test_survivors_that_cannot_be_or_are_late(group, tmp_path, caplog):
    for node in range(4):
        node_files.save(tmp_path, node, {"x": torch.full((3,), float(node))}, GOOD | {"step": node})

    def left_out(facts):
        if facts["node"] == 3:
            raise CheckpointError("epochs=9: must be ≤ 5")
        return "is late" if facts["node"] == 0 else ""

    again = begin(tmp_path, left_out=left_out)
    assert again is not None
    assert (again.survivors, again.step) == ([1, 2], 2)
    assert again.x_d.tolist() == [1.5] * 3
    assert caplog.messages == [
        f"left out: {tmp_path / 'node-3.safetensors'}: epochs=9: must be ≤ 5",
        f"left out: {tmp_path / 'node-0.safetensors'}: is late",
    ]


def test_none_where_there_are_none(group, tmp_path):
    assert begin(tmp_path / "nowhere") is None
