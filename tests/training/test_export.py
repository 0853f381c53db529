"""Trained models for torch: the average of all nodes' models, or one node's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import basegraph as bg
from basegraph.data.catalog import load
from basegraph.engines import checkpoint
from basegraph.models.networks import build
from support.cli import ok, run_here
from support.runs import write_run

CONFIG = bg.RunConfig(nodes=3, epochs=2, batch=32, warmup=0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "run"
    rows = bg.train(CONFIG, folder)
    return folder, rows[-1]


def accuracy(state_dict):
    digits = load("digits")
    model = build("mlp", digits.shape, 10, seed=1)
    model.load_state_dict(state_dict)
    mean, std = (torch.as_tensor(s)[:, None, None] for s in digits.statistics())
    samples = (torch.as_tensor(digits.test.inputs) / 255 - mean) / std
    right = model(samples).argmax(dim=1) == torch.as_tensor(digits.test.targets)
    return float(right.float().mean())


def test_the_averaged_model_is_as_good_as_the_run_says(run):
    folder, last = run
    assert accuracy(bg.export(folder)) == pytest.approx(last["test_accuracy_averaged"], abs=1e-6)


def test_the_nodes_models_are_as_good_as_the_run_says(run):
    folder, last = run
    each = [accuracy(bg.export(folder, node=i)) for i in range(3)]
    assert sum(each) / 3 == pytest.approx(last["test_accuracy"], abs=1e-6)
    assert min(each) == pytest.approx(last["test_accuracy_worst"], abs=1e-6)


def test_the_command_writes_what_python_gives(run, tmp_path):
    folder, _ = run
    text = ok("export", folder, "--out", tmp_path / "model.safetensors", "--node", 2)
    assert text.startswith("model of node 2: 6 tensors, 8970 numbers, in ")
    written, expected = load_file(tmp_path / "model.safetensors"), bg.export(folder, node=2)
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[name], expected[name]) for name in expected)


def test_push_sum_exports_what_is_evaluated(tmp_path):
    """Its x is not the model: the model is x over the mass."""
    rows = bg.train(bg.RunConfig(nodes=3, epochs=1, algorithm="sgp"), tmp_path / "run")
    exported = accuracy(bg.export(tmp_path / "run"))
    assert exported == pytest.approx(rows[-1]["test_accuracy_averaged"], abs=1e-6)


def test_a_module_of_ones_own(tmp_path):
    data = load("digits")
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    bg.train(CONFIG, tmp_path / "run", dataset=data, module=module)
    exported = bg.export(tmp_path / "run")
    assert {name: part.shape for name, part in exported.items()} == {
        name: part.shape for name, part in module.state_dict().items()
    }


def test_mistakes_are_one_line(run, tmp_path):
    folder, _ = run
    out = ("--out", tmp_path / "model.safetensors")
    for arguments, complaint in (
        ((tmp_path / "nowhere", *out), "is not the folder of a run"),
        ((folder, *out, "--node", 3), "--node=3: must be a node, an integer from 0 to 2"),
        ((folder, "--out", tmp_path / "model.pt"), "must end in .safetensors"),
        ((folder, "--out", tmp_path / "none" / "m.safetensors"), "does not exist"),
    ):
        done = run_here("export", *arguments)
        assert done.returncode == 2
        assert complaint in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_run_without_a_checkpoint_says_whether_one_will_come(tmp_path):
    """A run that has ended keeps none if it was told so."""
    ended = replace(CONFIG, epochs=1, checkpoint_last=False)
    bg.train(ended, tmp_path / "ended")
    complaint = (
        r"checkpoint\.safetensors: the run has ended and kept no checkpoint; to have one, train "
        r"again with its config\.toml and checkpoint_last=true"
    )
    with pytest.raises(bg.BasegraphError, match=complaint):
        bg.export(tmp_path / "ended")
    begun = write_run(tmp_path / "begun", 0)
    with pytest.raises(bg.BasegraphError, match="no checkpoint yet"):
        bg.export(begun)
    again = ["--config", tmp_path / "ended" / "config.toml", "--checkpoint-last", "true"]
    ok("train", *again, "--out", tmp_path / "again")
    assert bg.export(tmp_path / "again")


def test_a_checkpoint_of_an_earlier_version_is_named(run, tmp_path):
    folder, _ = run
    (tmp_path / "config.toml").write_bytes((folder / "config.toml").read_bytes())
    tensors, facts = checkpoint.load(folder / "checkpoint.safetensors")
    del facts["parameters"]
    checkpoint.save(tmp_path / "checkpoint.safetensors", tensors, facts)
    with pytest.raises(bg.BasegraphError, match="names no parameters"):
        bg.export(tmp_path)


def test_tied_parameters_have_all_their_names(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8, bias=False)
            self.again = torch.nn.Linear(8, 8, bias=False)
            self.again.weight = self.inner.weight
            self.head = torch.nn.Linear(64, 10)

        def forward(self, x):
            return self.head(self.again(self.inner(x.reshape(len(x), 8, 8))).flatten(1))

    bg.train(replace(CONFIG, epochs=1), tmp_path / "run", module=Tied())
    state = bg.export(tmp_path / "run")
    fresh = Tied()
    fresh.load_state_dict(state)
    assert fresh.again.weight is fresh.inner.weight
    assert torch.equal(fresh.again.weight, state["inner.weight"])
