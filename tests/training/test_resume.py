"""Runs that stop and go on: stopped, killed, cut short, and folders in use."""

from __future__ import annotations

import json
import os
import signal
import socket

import numpy as np
import pytest
import torch

import basegraph as bg
from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.data.catalog import load
from basegraph.data.dataset import Dataset
from basegraph.engines import checkpoint
from basegraph.experiments.sweep import SweepFolder
from basegraph.storage.files import TEMPORARY, leftovers, replacing
from basegraph.training._train import train, train_together
from basegraph.training.config import RunConfig
from basegraph.training.folder import RunFolder
from basegraph.training.watcher import Watcher
from support.cli import ok, run, run_here
from support.held import held
from support.mixing import spec_for

SHORT = {"nodes": 5, "epochs": 4, "batch": 16, "evaluate_every": 1}


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("stop", [7, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 30))])
def test_resumes_bit_for_bit(name, stop, tmp_path):
    damping = {"damping": "auto"} if name == "d2" else {}
    spec = spec_for(name)
    config = RunConfig(
        algorithm=name, topology=spec, allow_unstable=True, lr=0.02, **SHORT, **damping
    )
    whole = train(config, tmp_path / "whole")

    def stepped(step, total, loss):
        if step == stop:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(bg.BasegraphError, match=f"SIGTERM after step {stop} of"):
        train(config, tmp_path / "cut", watcher=Watcher(stepped=stepped))
    resumed = train(config, tmp_path / "cut", resume=True)
    for a, b in zip(whole, resumed, strict=True):
        assert {**a, "seconds": 0} == {**b, "seconds": 0}
    tensors = [
        checkpoint.load(tmp_path / x / "checkpoint.safetensors")[0] for x in ("whole", "cut")
    ]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])


@pytest.mark.parametrize("outer", ["dsgdm:nesterov=true", "allreduce-sgd:nesterov=true"])
def test_resumes_bit_for_bit_between_outer_steps(outer, tmp_path):
    config = RunConfig(
        algorithm="adamw", local_steps=5, outer=outer, lr=3e-3, weight_decay=0.1, clip=1.0, **SHORT
    )
    whole = train(config, tmp_path / "whole")

    for stop in (7, 15):  # the latter ends with an outer step

        def stepped(step, total, loss, stop=stop):
            if step == stop:
                os.kill(os.getpid(), signal.SIGTERM)

        with pytest.raises(bg.BasegraphError, match=f"SIGTERM after step {stop} of"):
            train(config, tmp_path / "cut", resume=stop > 7, watcher=Watcher(stepped=stepped))
    resumed = train(config, tmp_path / "cut", resume=True)
    assert [{**row, "seconds": 0} for row in resumed] == [{**row, "seconds": 0} for row in whole]
    tensors = checkpoint.load(tmp_path / "cut" / "checkpoint.safetensors")[0]
    assert {"state.first", "state.anchor", "state.outer_momentum"} <= tensors.keys()
    assert whole[-1]["test_accuracy"] > 0.3


def test_a_run_saved_before_a_field_existed_resumes(tmp_path):
    config = RunConfig(**SHORT)
    train(config, tmp_path / "run")
    file = tmp_path / "run" / "checkpoint.safetensors"
    tensors, facts = checkpoint.load(file)
    for name in ("clip", "outer", "outer_lr"):
        del facts["config"][name]
    checkpoint.save(file, tensors, facts)
    assert train(config, tmp_path / "run", resume=True)[-1]["epoch"] == 4


def test_killed_run_resumes_from_its_last_checkpoint(tmp_path):
    """kill -9; what metrics.jsonl says after the checkpoint is computed again."""
    arguments = ["--nodes", 5, "--epochs", 8, "--batch", 16, "--evaluate-every", 1]
    out = tmp_path / "run"
    with held(tmp_path / "hold", "checkpoint", 5, "train", *arguments, "--out", out) as process:
        with pytest.raises(bg.InvalidArgument, match=f"is in use by process {process.pid} on "):
            train(RunConfig(), out, resume=True)
        refused = run_here("train", "--resume", "--out", out)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert f"is in use by process {process.pid} on {socket.gethostname()}" in refused.stderr
    facts = checkpoint.load(out / "checkpoint.safetensors")[1]
    assert facts["step"] == 4 * facts["steps_per_epoch"]
    assert [row["epoch"] for row in metrics(out)] == [1, 2, 3, 4, 5]
    ok("train", "--resume", "--out", out)
    rows = metrics(out)
    assert [row["epoch"] for row in rows] == list(range(1, 9))
    fresh = tmp_path / "fresh"
    ok("train", *arguments, "--out", fresh)
    assert [{**r, "seconds": 0} for r in rows] == [{**r, "seconds": 0} for r in metrics(fresh)]


def test_interrupt_writes_a_checkpoint_and_says_so(tmp_path):
    out, hold = tmp_path / "run", tmp_path / "hold"
    arguments = ["train", "--nodes", 5, "--epochs", 2, "--batch", 16, "--out", out]
    with held(hold, "step", 5, *arguments) as process:
        code, errors = process.end(signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "stopped by SIGINT after step 5 of" in errors
    assert "resume it to continue" in errors
    assert errors.count("\n") == 1
    assert (out / "checkpoint.safetensors").is_file()


@pytest.mark.parametrize("cut", ["checkpoint.safetensors", "metrics.jsonl", "half a line"])
def test_resumes_whatever_a_kill_left(cut, tmp_path):
    config = RunConfig(**SHORT)
    whole = train(config, tmp_path / "whole")
    again = tmp_path / "again"
    train(config, again)
    left = again / f"{TEMPORARY}checkpoint.abcd1234.safetensors"
    left.write_bytes(b"half written")
    if cut == "half a line":
        text = (again / "metrics.jsonl").read_text()
        (again / "metrics.jsonl").write_text(text[:-20])
        expected = whole  # the last row is made again
    else:
        (again / cut).unlink()
        expected = whole if cut.startswith("checkpoint") else whole[-1:]
    rows = train(config, again, resume=True)
    assert [{**r, "seconds": 0} for r in rows] == [{**r, "seconds": 0} for r in expected]
    assert not left.exists()


def test_only_files_of_our_own_naming_are_cleared_away(tmp_path):
    config, out = RunConfig(**{**SHORT, "epochs": 1}), tmp_path / "run"
    train(config, out)
    (out / ".ipynb_checkpoints").mkdir()
    own = [out / ".my-checkpoint-notes.txt", out / ".checkpoint.backup12.safetensors",
           out / f"{TEMPORARY}checkpoint.mine.safetensors"]  # fmt: skip
    for file in own:
        file.write_text("mine")
    train(config, out, resume=True)
    assert [file.read_text() for file in own] == ["mine"] * 3
    assert (out / ".ipynb_checkpoints").is_dir()


def test_what_a_killed_write_leaves_is_found(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    with replacing(path) as temporary:
        assert leftovers(path) == [temporary]
        assert leftovers(tmp_path / "metrics.jsonl") == []
    assert leftovers(path) == []


def test_rows_of_other_numbers_of_nodes_stay(tmp_path):
    """With fewer nodes before, an epoch had more steps and a node had sent more."""
    config = RunConfig(**{**SHORT, "evaluate_every": 1})
    whole = train(config, tmp_path / "whole")

    def stop(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", watcher=Watcher(evaluated=stop))
    folder = RunFolder(tmp_path / "run", resume=True)
    folder.keep([{**whole[0], "step": 10_000}])
    tensors, facts = checkpoint.load(folder.checkpoint)
    checkpoint.save(folder.checkpoint, tensors, {**facts, "bytes": facts["bytes"] + 5})
    rows = train(config, folder.path, resume=True)
    assert [row["epoch"] for row in rows] == [row["epoch"] for row in whole]
    assert rows[0]["step"] == 10_000
    assert rows[-1]["bytes_per_node"] == whole[-1]["bytes_per_node"] + 5


def test_a_folder_is_of_one_run_at_a_time(tmp_path):
    """Also within a process, and also before the first run has written anything."""
    config, out = RunConfig(**SHORT), tmp_path / "run"
    refused = []

    def another(facts):
        for resume in (False, True):
            with pytest.raises(
                bg.InvalidArgument, match=f"in use by process {os.getpid()} on"
            ) as e:
                train(config, out, resume=resume)
            refused.append(e)

    rows = train(config, out, watcher=Watcher(started=another))
    assert len(refused) == 2
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 4
    with pytest.raises(bg.InvalidArgument, match="in use"):
        train_together({tmp_path / "two": config, tmp_path / "run" / ".." / "two": config})
    assert not (tmp_path / "two").exists()


def test_another_setting_is_named_before_what_follows_from_it(tmp_path):
    """Another model changes the fingerprint of data and models, too."""
    text = {**SHORT, "dataset": "text", "model": "gpt-tiny:layers=1,width=8,context=32"}
    train(RunConfig(**text), tmp_path / "run")
    other = "gpt-tiny:layers=1,width=16,context=32"
    with pytest.raises(
        bg.InvalidArgument, match=r"^model='gpt-tiny:layers=1,width=16.*differs from the run"
    ):
        train(RunConfig(**{**text, "model": other}), tmp_path / "run", resume=True)


def test_other_data_are_not_resumed(tmp_path):
    digits = load("digits")
    config = RunConfig(**SHORT)
    train(config, tmp_path / "run", dataset=digits)
    order = np.arange(len(digits.train))[::-1]
    other = Dataset("digits", digits.train.take(order), digits.test, 10)
    with pytest.raises(bg.InvalidArgument, match="was run on other data or models"):
        train(config, tmp_path / "run", dataset=other, resume=True)
    tested = Dataset("digits", digits.train, digits.test.take(np.arange(300)), 10)
    with pytest.raises(bg.InvalidArgument, match="was run on other data or models"):
        train(config, tmp_path / "run", dataset=tested, resume=True)
    checkpoint = RunFolder(tmp_path / "run", resume=True)
    saved = checkpoint.load()
    before = saved.facts["fingerprint"].partition("-")[0]  # as an earlier version wrote it
    checkpoint.save(saved.tensors, {**saved.facts, "fingerprint": before})
    train(config, tmp_path / "run", dataset=digits, resume=True)


def test_a_run_saved_with_fields_without_effect_goes_on(tmp_path):
    """Earlier versions took them: they are in the configuration and in the checkpoint."""
    fields = {"split": "iid", "schedule": "constant"}
    config = RunConfig(**SHORT, **fields)

    def stop(row):
        raise KeyboardInterrupt

    sweep = SweepFolder(tmp_path, "x", resume=False)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", watcher=Watcher(evaluated=stop))
    saved = RunFolder(tmp_path / "run", resume=True)
    text = saved.config.read_text()
    text = text.replace("alpha = 0.1\n", "alpha = 5.0\n").replace("lr_min = 0.0", "lr_min = 0.01")
    saved.config.write_text(text)
    tensors, facts = saved.load()
    facts["config"] |= {"alpha": 5.0, "lr_min": 0.01}
    saved.save(tensors, facts)
    assert sweep.left({"run": config}) == {"run": config}
    ok("train", "--resume", "--out", tmp_path / "run")
    train(config, tmp_path / "whole")
    ended = [RunFolder(tmp_path / name, resume=True).load().tensors for name in ("run", "whole")]
    assert all(torch.equal(ended[0][name], ended[1][name]) for name in ended[0])
    assert bg.export(tmp_path / "run").keys() == bg.export(tmp_path / "whole").keys()


def test_a_run_that_has_ended_without_a_checkpoint_is_left_alone(tmp_path):
    """A job that always resumes, as under Slurm, must not lose what it came to."""
    config = RunConfig(**SHORT, checkpoint_last=False)
    rows = train(config, tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert "checkpoint.safetensors" not in before
    told = []
    again = train(config, tmp_path / "run", resume=True, watcher=Watcher(ended=told.append))
    assert (again, told) == (rows, [rows])
    assert "done" in ok("train", "--resume", "--out", tmp_path / "run")
    both = {tmp_path / "run": config, tmp_path / "other": RunConfig(**SHORT, seed=1)}
    ended, made = train_together(both, resume=True)
    assert ended == rows
    assert made[-1]["epoch"] == SHORT["epochs"]
    with pytest.raises(bg.InvalidArgument, match=r"lr=0\.5: differs from the run"):
        train(RunConfig(**SHORT, lr=0.5), tmp_path / "run", resume=True)
    third = {
        tmp_path / "third": RunConfig(**SHORT, lr=0.5),
        tmp_path / "run": RunConfig(**SHORT, lr=0.5),
    }
    with pytest.raises(bg.InvalidArgument, match=r"lr=0\.5: differs from the run"):
        train_together(third, resume=True)
    assert not (tmp_path / "third").exists(), "refused before any work"
    digits = load("digits")
    flipped = Dataset("digits", digits.train, digits.train, 10)
    with pytest.raises(bg.InvalidArgument, match="data have changed"):
        RunFolder(tmp_path / "run", resume=True).require_same_data(flipped)
    after = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert after == before


def test_nodes_as_processes_leave_it_alone_too(tmp_path):
    command = ["train", "--engine", "distributed", "--nodes", 1, "--epochs", 1]
    command += ["--checkpoint-last", "false", "--out", tmp_path / "run"]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    alone = {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environment = {**os.environ, **{name: str(value) for name, value in alone.items()}}
    done = run(*command, env=environment)
    assert done.returncode == 0, done.stderr
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    done = run(*command, "--resume", env=environment)
    assert "holds a run that has ended and kept no checkpoint" in done.stderr
    assert done.returncode == 2
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before
