"""The folder of a run that another node takes over, and the record of changes in it."""

from __future__ import annotations

import json

import pytest
import torch

from basegraph.errors import PeerLost
from basegraph.training import folder as module
from basegraph.training.config import RunConfig
from basegraph.training.folder import RunFolder, open_run

ROW = {"epoch": 1, "step": 2}


def content(path):
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != ".lock"}


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: folder.append(ROW),
        lambda folder: folder.keep([ROW]),
        lambda folder: folder.save({"x": torch.zeros(2)}, {"step": 3}),
        lambda folder: folder.remove_checkpoint(),
        lambda folder: folder.record({"change": 2}),
        lambda folder: folder.configure(RunConfig(nodes=3)),
        lambda folder: folder.belongs_to("job"),
    ],
)
def test_a_node_that_was_stopped_writes_nothing_any_more(write, tmp_path):
    with open_run(tmp_path, resume=False, job="job") as stopped:
        assert not stopped.taken
        stopped.save({"x": torch.zeros(1)}, {"step": 1})
        with open_run(tmp_path, resume=False, job="job") as present:
            before = content(tmp_path)
            with pytest.raises(PeerLost, match="another node has taken over"):
                write(stopped)
            assert content(tmp_path) == before
            write(present)
            assert content(tmp_path) != before


def test_one_that_is_stopped_in_a_write_does_not_complete_it(tmp_path, monkeypatch):
    """After it has made sure that the folder is its own, and before the file has its name."""
    with open_run(tmp_path, resume=False, job="job") as stopped:
        stopped.configure(RunConfig(nodes=3))
        before = content(tmp_path)
        require = RunFolder._require_lock

        def then_another_takes_over(folder):
            require(folder)
            if folder is stopped and not taken:
                taken.append(open_run(tmp_path, resume=True, job="job"))
                taken[0].__enter__().clear_leftovers()

        taken = []
        monkeypatch.setattr(module.RunFolder, "_require_lock", then_another_takes_over)
        with pytest.raises(PeerLost, match="another node has taken over"):
            stopped.configure(RunConfig(nodes=4))
        taken[0].__exit__(None, None, None)
        assert content(tmp_path) == before


def test_a_change_of_the_nodes_is_recorded_once(tmp_path):
    folder = RunFolder(tmp_path, resume=False)
    old = {"epoch": 2.5, "survivors": [0, 2], "nodes_before": 3, "nodes": 3}
    (tmp_path / "restarts.jsonl").write_text(json.dumps(old) + '\n{"change": 1, "mem')
    first = {"change": 2, "members": ["a"], "time": "now"}
    folder.record(first)
    folder.record({**first, "time": "later"}, {"change": 3, "members": ["a", "b"]})
    folder.record({"change": 3, "members": ["c"]})  # of another job
    lines = (tmp_path / "restarts.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == old
    assert [json.loads(line) for line in lines[2:]] == [
        first,
        {"change": 3, "members": ["a", "b"]},
        {"change": 3, "members": ["c"]},
    ]
