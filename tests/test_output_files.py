from __future__ import annotations

import pytest

from basegraph import InvalidArgument
from basegraph.files import replacing, writable


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
