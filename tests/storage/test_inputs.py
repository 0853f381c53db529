"""Files that others may have written: too large, nested too deep, or not what they should be."""

from __future__ import annotations

import json

import pytest
import torch

from basegraph.data import catalog
from basegraph.data.dataset import DataError
from basegraph.data.published import IDX
from basegraph.engines import checkpoint
from basegraph.errors import InvalidArgument
from basegraph.experiments.grid import MAX_RUNS, read_sweep
from basegraph.storage import inputs
from basegraph.storage.inputs import MAX_TEXT_BYTES, BadFile
from basegraph.training.config_files import read_toml
from basegraph.training.folder import RunFolder, belongs_to
from basegraph.training.metrics import MAX_LINE

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("read", [read_toml, read_sweep])
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"epochs = {DEEP}", "is not TOML: nested too deep"),
        (f"epochs = {'1' * 5000}", "is not TOML: Exceeds the limit"),
        (f"# {'a' * MAX_TEXT_BYTES}", f"is larger than {MAX_TEXT_BYTES} bytes"),
        (b"\xff", "is not UTF-8 text"),
    ],
)
def test_toml(read, text, complaint, tmp_path):
    path = tmp_path / "c.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(InvalidArgument, match=complaint) as refusal:
        read(path)
    assert "\n" not in str(refusal.value)


def test_a_sweep_of_too_many_runs(tmp_path):
    path = tmp_path / "sweep.toml"
    lists = (f"{name} = {list(range(1, 101))}" for name in ("epochs", "batch", "seed", "warmup"))
    path.write_text("[grid]\n" + "\n".join(lists))
    with pytest.raises(InvalidArgument, match=f"grid=100000000: .* at most {MAX_RUNS} runs"):
        read_sweep(path)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "config.toml").write_text("")
    return RunFolder(tmp_path, resume=True)


ROW = json.dumps({"epoch": 1, "step": 5})


@pytest.mark.parametrize(
    "line", [DEEP[:MAX_LINE], f'{{"a": {DEEP}}}', f'{{"epoch": 1, "a": "{"b" * MAX_LINE}"}}', "7",
             '{"epoch": "1"}', "half a l"]
)  # fmt: skip
def test_lines_of_metrics(line, run):
    run.metrics.write_text(f"{ROW}\n{line}")
    assert run.rows() == [json.loads(ROW)]  # as if a kill had cut the last line
    run.metrics.write_text(f"{ROW}\n{line}\n{ROW}\n")
    with pytest.raises(BadFile, match=r"metrics\.jsonl: line 2 is broken"):
        run.rows()


def test_metrics_that_are_too_large(run, monkeypatch):
    monkeypatch.setattr("basegraph.training.metrics.MAX_METRICS_BYTES", 100)
    run.metrics.write_text(f"{ROW}\n" * 20)
    with pytest.raises(BadFile, match=r"metrics\.jsonl: is larger than 100 bytes"):
        run.rows()


@pytest.mark.parametrize("text", [DEEP, "[1]", "{", " " * MAX_TEXT_BYTES + "{}"])
def test_broken_provenance_belongs_to_nobody(text, run):
    run.provenance.write_text(text)
    assert not belongs_to(run.path, "job")
    if text != "[1]":
        with pytest.raises(BadFile, match=r"provenance\.json: is "):
            inputs.read_json(run.provenance)


def test_facts_of_a_checkpoint(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    checkpoint.save(path, {"x": torch.zeros(2)}, {"note": "a" * MAX_TEXT_BYTES})
    with pytest.raises(checkpoint.CheckpointError, match=r"is no checkpoint: .* bytes of facts"):
        checkpoint.load(path)


def test_downloads(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "MAX_FILE_BYTES", 1000)
    published = tmp_path / "published"
    published.mkdir()
    (published / f"{IDX[0]}.gz").write_bytes(bytes(1001))
    with pytest.raises(DataError, match="is larger than 1000 bytes"):
        catalog.download("mnist", tmp_path / "data", f"{published.as_uri()}/")
    assert list((tmp_path / "data" / "mnist").iterdir()) == []
