from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure
from safetensors import SafetensorError

from basegraph import InvalidArgument
from basegraph.engines import checkpoint
from basegraph.plots.canvas import save
from basegraph.storage.files import CannotWrite, replacing, writable
from basegraph.training import folder
from basegraph.training._train import train
from basegraph.training.config import RunConfig


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="half way"), replacing(path) as temporary:
        temporary.write_text("new, incompl")
        raise RuntimeError("half way")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_success_replaces(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(InvalidArgument, match="is a folder"):
        writable("--plot", tmp_path, force=True)


def no_space(*arguments, **options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_names_the_file_and_leaves_what_was_there(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("old")
    message = r"result\.csv: cannot be written: No space left on device"
    with pytest.raises(CannotWrite, match=message), replacing(path) as temporary:
        temporary.write_text("new, incompl")
        no_space()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_plot_on_a_full_disk_names_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", no_space)
    with pytest.raises(CannotWrite, match=r"curves\.png: cannot be written: No space left"):
        save(Figure(), tmp_path / "curves.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["checkpoint", "metrics"])
def test_a_run_on_a_full_disk_keeps_what_it_had(file, tmp_path, monkeypatch):
    config = RunConfig(nodes=3, epochs=3, evaluate_every=1)
    whole = train(config, tmp_path / "whole")
    calls = []

    def full_the_second_time(really):
        def write(*arguments, **options):
            calls.append(arguments)
            if len(calls) == 2:
                if file == "checkpoint":  # as safetensors reports it
                    raise SafetensorError("I/O error: No space left on device (os error 28)")
                no_space()
            return really(*arguments, **options)

        return write

    with monkeypatch.context() as patched:
        if file == "checkpoint":
            patched.setattr(checkpoint, "save_file", full_the_second_time(checkpoint.save_file))
        else:
            full = {**vars(os), "fsync": full_the_second_time(os.fsync)}
            patched.setattr(folder, "os", SimpleNamespace(**full))
        message = rf"{file}\..*: cannot be written: .*No space left on device.*resume to continue"
        with pytest.raises(CannotWrite, match=message):
            train(config, tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*"))
    resumed = train(config, tmp_path / "run", resume=True)
    assert [{**r, "seconds": 0} for r in resumed] == [{**r, "seconds": 0} for r in whole]
